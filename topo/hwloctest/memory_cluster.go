//go:build cluster

package hwloctest

import (
	"os"

	"golang.org/x/sys/unix"
)

// Temporary folders are in memory if they can be: the tree of a machine is a thousand small files, and few disks are
// quick with these.
func init() {
	if unix.Access("/dev/shm", unix.W_OK) == nil {
		os.Setenv("TMPDIR", "/dev/shm")
	}
}
