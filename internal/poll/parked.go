package poll

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// reader waits through Go's poller, which an epoll descriptor of the reader's tells that f has
// something.
type reader struct {
	f     *os.File
	edges *os.File // the epoll descriptor, closed with the process
	wait  syscall.RawConn
}

// ParkedReader returns a reader of f whose Read waits in Go's poller, so that no thread blocks. f stays in blocking
// mode. Only this reader may read f. If f cannot be polled, for example because it is a regular file, ParkedReader
// returns f itself, and a Read of f then blocks a thread.
func ParkedReader(f *os.File) io.Reader {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return f
	}
	if unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, int(f.Fd()), &unix.EpollEvent{Events: unix.EPOLLIN}) == nil &&
		unix.SetNonblock(fd, true) == nil {
		edges := os.NewFile(uintptr(fd), "readiness of "+f.Name())
		if wait, err := edges.SyscallConn(); err == nil {
			return &reader{f, edges, wait}
		}
		edges.Close()
		return f
	}
	unix.Close(fd)
	return f
}

func (r *reader) Read(p []byte) (n int, err error) {
	waited := r.wait.Read(func(uintptr) bool {
		if !r.ready() {
			return false
		}
		n, err = r.f.Read(p)
		return true
	})
	if waited != nil {
		return 0, waited
	}
	return n, err
}

// ready reports whether a read returns at once, be it with the end or an error. Only then the
// poller's edges are not waited for: they tell of what came since.
func (r *reader) ready() bool {
	fds := []unix.PollFd{{Fd: int32(r.f.Fd()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return n > 0 || err != nil
		}
	}
}
