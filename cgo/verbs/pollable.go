package verbs

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// pollable is a descriptor of the library in the Go poller. It holds a
// duplicate, since both os.File and the library close their own.
type pollable struct {
	file *os.File
	raw  syscall.RawConn
	done atomic.Bool
}

// newPollable takes a descriptor that is non-blocking already.
func newPollable(fd int, name string) (*pollable, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &pollable{file: os.NewFile(uintptr(own), name)}
	if p.raw, err = p.file.SyscallConn(); err != nil {
		p.file.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// wait calls take until it has something: a count above 0, or an errno other
// than EAGAIN.
func (p *pollable) wait(take func() int) (rc int, err error) {
	err = p.raw.Read(func(uintptr) bool {
		rc = take()
		return rc != 0 && rc != -int(unix.EAGAIN)
	})
	if err != nil && p.done.Load() {
		err = os.ErrClosed // a RawConn has a nameless error for it
	}
	return rc, err
}

// close ends a wait that is under way, and returns when it has ended.
func (p *pollable) close() {
	p.done.Store(true)
	p.file.Close()
}
