package verbs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Where the kernel says which file is a device's.
const (
	deviceFiles = "/dev/infiniband"
	deviceClass = "/sys/class/infiniband_verbs"
)

// openErrno is why a device could not be opened. For a device file that may not be
// opened libibverbs looks under other names, and reports that there is none
// (rdma-core, util/open_cdev.c): so the file is tried here. files and class are
// deviceFiles and deviceClass.
func openErrno(errno syscall.Errno, device, files, class string) syscall.Errno {
	if errno != syscall.ENOENT {
		return errno
	}
	names, _ := filepath.Glob(filepath.Join(class, "uverbs*", "ibdev"))
	for _, name := range names {
		of, err := os.ReadFile(name)
		if err != nil || strings.TrimSpace(string(of)) != device {
			continue
		}
		f, err := os.OpenFile(filepath.Join(files, filepath.Base(filepath.Dir(name))), os.O_RDWR, 0)
		if err == nil {
			f.Close()
		}
		if errors.Is(err, fs.ErrPermission) {
			return syscall.EACCES
		}
	}
	return errno
}
