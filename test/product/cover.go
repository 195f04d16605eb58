package product

import "os"

// coverFlags returns the flags with which go build makes ibrun write coverage data, or nil if IBRUN_TEST_COVER is not
// set. Command suites sets IBRUN_TEST_COVER to the folder for the data. coverFlags sets GOCOVERDIR, which ibrun reads,
// to the same folder. The processes that a test starts inherit it. On virtual nodes sshd sets it (package cluster).
func coverFlags() []string {
	dir := os.Getenv("IBRUN_TEST_COVER")
	if dir == "" {
		return nil
	}
	os.Setenv("GOCOVERDIR", dir)
	return []string{"-cover", "-coverpkg=ibrun/..."}
}
