package cli

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/internal/hostlist"
)

// How long what is no file on a disk is waited for. Who writes a pipe, as in
// -f <(scontrol show hostnames), has it open when ibrun begins.
const (
	pipeWriter = 500 * time.Millisecond // for somebody who writes it
	pipeEnd    = 10 * time.Second       // for its end
)

// ReadTextFile returns the content of a file or a pipe, or of standard input if name is "-". It returns an error for a
// directory, a device, an empty file, and a file of more than hostlist.MaxFile bytes.
func ReadTextFile(name string) ([]byte, error) {
	path := name
	if name == "-" {
		name, path = "standard input", "/dev/stdin"
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t := text{name: name, fd: fd, pipe: st.Mode&unix.S_IFMT == unix.S_IFIFO}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return nil, fmt.Errorf("%s is a directory", name)
	case !t.pipe && st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%s is neither a file nor a pipe", name)
	case st.Size > hostlist.MaxFile:
		return nil, t.tooLong(st.Size)
	}
	content, err := t.read()
	if err == nil && len(content) == 0 {
		err = fmt.Errorf("%s is empty", name)
	}
	return content, err
}

// text is an open file or pipe that does not block.
type text struct {
	name string
	fd   int
	pipe bool
}

func (t text) tooLong(size int64) error {
	return fmt.Errorf("%s has %d MiB, more than %d: is it the right file?", t.name, size>>20, hostlist.MaxFile>>20)
}

func (t text) read() (content []byte, err error) {
	piece, end, waited := make([]byte, 64<<10), time.Now().Add(pipeEnd), false
	for {
		n, err := unix.Read(t.fd, piece)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN && !t.pipe: // /proc/kmsg, for one
			return nil, fmt.Errorf("%s has no end: is it the right file?", t.name)
		case err == unix.EAGAIN:
			if t.poll(time.Until(end)) == 0 {
				return nil, fmt.Errorf("%s is a pipe that has not come to its end in %v: what writes it?", t.name,
					pipeEnd)
			}
		case err != nil:
			return nil, fmt.Errorf("%s: %w", t.name, err)
		case n > 0:
			if content = append(content, piece[:n]...); len(content) > hostlist.MaxFile {
				return nil, t.tooLong(int64(len(content)))
			}
		case t.pipe && len(content) == 0 && waited:
			return nil, fmt.Errorf("%s is a pipe that nobody writes", t.name)
		case t.pipe && len(content) == 0 && t.poll(pipeWriter)&unix.POLLHUP == 0:
			waited = true
		default:
			return content, nil
		}
	}
}

// poll waits until there is something to read, or a pipe has ended.
func (t text) poll(most time.Duration) int16 {
	fds := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, int(max(0, most.Milliseconds())))
		if err != unix.EINTR {
			return fds[0].Revents
		}
	}
}
