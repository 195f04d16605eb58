package verbs

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pollable is a descriptor of the library in the Go poller. It holds a
// duplicate, since both os.File and the library close their own.
type pollable struct {
	file   *os.File
	raw    syscall.RawConn
	done   atomic.Bool
	open   sync.Mutex // held while fd is used beside file
	fd     int32
	keeper keeper // of the goroutine that waits
}

// newPollable takes a descriptor that is non-blocking already.
func newPollable(fd int, name string) (*pollable, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &pollable{file: os.NewFile(uintptr(own), name), fd: int32(own)}
	if p.raw, err = p.file.SyscallConn(); err != nil {
		p.file.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// wait calls take until it has something: a count above 0, or an errno other than EAGAIN. Before
// it waits in the Go poller it may keep its processor for that long (keeper). Deadline and close
// end it after that time at the latest.
func (p *pollable) wait(keep time.Duration, take func() int) (rc int, err error) {
	if keep > 0 && p.keeper.due() {
		if rc = p.kept(keep, take); something(rc) {
			return rc, nil
		}
	}
	err = p.raw.Read(func(uintptr) bool {
		rc = take()
		return something(rc)
	})
	if err != nil && p.done.Load() {
		err = os.ErrClosed // a RawConn has a nameless error for it
	}
	return rc, err
}

// something is whether take has something.
func something(rc int) bool { return rc != 0 && rc != -int(unix.EAGAIN) }

// kept is a wait that keeps the processor, and what take has then.
func (p *pollable) kept(most time.Duration, take func() int) int {
	p.open.Lock()
	defer p.open.Unlock()
	if p.done.Load() || !p.keeper.wait(p.fd, most) {
		return 0
	}
	return take()
}

// close ends a wait that is under way, and returns when it has ended.
func (p *pollable) close() {
	p.done.Store(true)
	p.open.Lock()
	defer p.open.Unlock()
	p.file.Close()
}
