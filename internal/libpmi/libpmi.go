// Package libpmi carries the library of cgo/libpmi inside the binary, so that
// nothing has to be installed on nodes, and makes a file of it that has no name,
// so that nothing can be left there. It does not know who loads it.
package libpmi

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

//go:embed built
var built embed.FS

// ErrNone says that the library was not there when this binary was built.
var ErrNone = errors.New("this build of ibrun has no libpmi, by which programs of Open MPI find each other: try make " +
	"build where there is gcc")

// Image is the shared library, or nil.
func Image() []byte {
	b, err := built.ReadFile("built/libpmi.so")
	if err != nil {
		return nil
	}
	return b
}

// Open makes the library a file in memory, or in one of some folders where this
// kernel or its policy has none to execute from. The file has no name, but Path
// can be opened by other processes as long as it stays open, which is up to the
// caller.
func Open(folders ...string) (*os.File, error) {
	image := Image()
	if image == nil {
		return nil, ErrNone
	}
	// A binary that its user may execute but not read has a closed /proc; this one
	// has nothing to hide in there.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	f, err := inMemory(image)
	for _, dir := range folders {
		if err == nil {
			break
		}
		var e error
		if f, e = unnamed(image, dir); e == nil {
			return f, nil
		}
		err = errors.Join(err, e)
	}
	return f, err
}

// Path is where another process finds a file of this one.
func Path(f *os.File) string {
	return "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(int(f.Fd()))
}

func inMemory(image []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("libpmi.so", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 all may be executed
		fd, err = unix.MemfdCreate("libpmi.so", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, fmt.Errorf("file in memory: %w", err)
	}
	return fill(os.NewFile(uintptr(fd), "libpmi.so"), image)
}

func unnamed(image []byte, dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "libpmi-")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name())
	return fill(f, image)
}

// fill writes the library, and sees whether the kernel lets it be executed.
func fill(f *os.File, image []byte) (*os.File, error) {
	_, err := f.Write(image)
	if err == nil {
		var page []byte
		if page, err = unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE); err == nil {
			_ = unix.Munmap(page)
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return f, nil
}
