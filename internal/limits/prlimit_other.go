//go:build !amd64 && !arm64

package limits

import "syscall"

// prlimit comes too late here for the limit of open files.
func prlimit(resource uintptr, l *Limit) {
	var have syscall.Rlimit
	if syscall.Getrlimit(int(resource), &have) == nil {
		*l = Limit{have.Cur, have.Max}
	}
}
