// Package executable writes the programs that tests start. It is for tests alone.
package executable

import (
	"errors"
	"os"
	"syscall"
)

// Write makes a file of the text that all may read and run. No process is forked meanwhile: its
// child would have the file open for writing until it has become its program, and the kernel
// starts no file that somebody has open so (ETXTBSY of execve(2)).
func Write(path string, text []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Chmod(0o755), f.Close())
}
