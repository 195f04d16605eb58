package product

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// buildOnce calls build to create the file path, unless another package has built a file with the same key in the same
// run of test/suites. In that case it makes path a hard link to that file. The command suites creates a folder for
// these files, sets IBRUN_TEST_PRODUCTS to its path, and removes it at the end. If the variable is not set, or a link
// is impossible, buildOnce calls build.
func buildOnce(path, key string, build func(path string) error) error {
	dir := os.Getenv("IBRUN_TEST_PRODUCTS")
	if dir == "" {
		return build(path)
	}
	file := filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256([]byte(key)))[:16])
	lock, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		made := file + ".new"
		if err := build(made); err != nil {
			return err
		}
		if err := os.Rename(made, file); err != nil {
			return err
		}
	}
	_ = os.Remove(path)
	if err := os.Link(file, path); !errors.Is(err, unix.EXDEV) {
		return err
	}
	return build(path)
}
