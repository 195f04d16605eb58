package product

import "os"

// coverFlags returns the flags of go build with which ibrun writes coverage data, or nil if none is
// wanted. The script test/coverage sets IBRUN_TEST_COVER to the folder for the data. coverFlags sets
// GOCOVERDIR to it, which processes inherit. On virtual nodes sshd sets GOCOVERDIR (package cluster).
func coverFlags() []string {
	dir := os.Getenv("IBRUN_TEST_COVER")
	if dir == "" {
		return nil
	}
	os.Setenv("GOCOVERDIR", dir)
	return []string{"-cover", "-coverpkg=ibrun/..."}
}
