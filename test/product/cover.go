package product

import "os"

// coverFlags returns the flags of go build with which ibrun writes coverage data, or nil if none is
// wanted. test/coverage sets IBRUN_TEST_COVER to the folder of the data. Processes get the folder in
// GOCOVERDIR, and those on virtual nodes by a line for sshd (package cluster).
func coverFlags() []string {
	dir := os.Getenv("IBRUN_TEST_COVER")
	if dir == "" {
		return nil
	}
	os.Setenv("GOCOVERDIR", dir)
	return []string{"-cover", "-coverpkg=ibrun/..."}
}
