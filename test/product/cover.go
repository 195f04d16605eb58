package product

import "os"

// coverFlags returns the flags of go build for an ibrun that writes coverage data, or nil if IBRUN_TEST_COVER is not
// set. The command suites sets that variable to the folder for the data. coverFlags also sets GOCOVERDIR, which tells
// ibrun where to write, to that folder. Processes that a test starts on this machine inherit it. On virtual nodes sshd
// sets it (package cluster).
func coverFlags() []string {
	dir := os.Getenv("IBRUN_TEST_COVER")
	if dir == "" {
		return nil
	}
	os.Setenv("GOCOVERDIR", dir)
	return []string{"-cover", "-coverpkg=ibrun/..."}
}
