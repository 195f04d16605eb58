package product

import "os"

// coverFlags returns the flags of go build with which ibrun writes coverage data, or nil if no data are
// wanted. Command suites sets IBRUN_TEST_COVER to the folder for the data. coverFlags sets GOCOVERDIR to the
// same folder, and the processes of the test inherit it. On virtual nodes sshd sets GOCOVERDIR (package
// cluster).
func coverFlags() []string {
	dir := os.Getenv("IBRUN_TEST_COVER")
	if dir == "" {
		return nil
	}
	os.Setenv("GOCOVERDIR", dir)
	return []string{"-cover", "-coverpkg=ibrun/..."}
}
