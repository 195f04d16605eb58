package proc

import (
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// Read is the beginning of a file, at most so many bytes. The error is a
// *fs.PathError with what has been read before it.
func Read(path string, most int) ([]byte, error) {
	fd, err := again(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	text := make([]byte, 0, 512)
	for {
		room := text[len(text):min(cap(text), most)]
		n, err := again(func() (int, error) { return unix.Read(fd, room) })
		if err != nil {
			return text, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		text = text[:len(text)+n]
		if n == 0 || n < len(room) && whole(path) {
			return text, nil
		}
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
	}
}

// whole reports whether the kernel gives as much of a file as there is room for: attributes of
// devices are made at once (kernel: fs/kernfs/file.c). Files of procfs and of control groups come
// in pieces.
func whole(path string) bool {
	return strings.HasPrefix(path, "/sys/devices/") || strings.HasPrefix(path, "/sys/class/")
}

// again repeats a call that a signal has interrupted.
func again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}
