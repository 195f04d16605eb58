package udp

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ibrun/fabric"
	"ibrun/internal/poll"
)

// inlet is what comes out of the socket. It waits in one of two ways.
//
// While datagrams follow each other closely, it waits in the system call that brings them. Nothing
// else is woken for a datagram then, and nothing at all for one that has left. After inKernel
// without any, it waits in Go's poller, as what belongs to package net does always: a thread that
// waits in the kernel keeps its processor from other goroutines for some milliseconds.
//
// Its fields belong to whoever has the turn, but for the last ones.
type inlet struct {
	socket syscall.RawConn // which waits
	poller syscall.RawConn // of ready
	ready  *os.File        // an epoll descriptor, which can be read when the socket can; see watch
	epoll  int
	watch  bool // whether ready looks at the socket
	short  int  // waits without a long one among them
	need   int  // how many of those there must be before it waits in the kernel
	four   bool // its addresses are of IPv4
	spin   poll.Spinner

	space []byte
	parts []unix.Iovec
	names []unix.RawSockaddrInet6 // large enough for both families
	heads []head

	// of the system call under way
	flags int
	came  int
	err   error
	used  int // heads that the kernel has written into
	call  func(fd uintptr) (done bool)
	poll  func(uintptr) (done bool)
	try   func() (done bool)

	woken  atomic.Bool // Wake was called
	inside atomic.Bool // whoever has the turn waits in the system call
	wakes  atomic.Bool // a datagram to ourselves arrives, so that it can be woken there
}

// head is struct mmsghdr, see recvmmsg(2).
type head struct {
	unix.Msghdr
	size uint32
}

const (
	// inKernel is how long it waits in the kernel, which counts in ticks of 1 to 10 ms.
	inKernel = 4 * time.Millisecond
	// It waits there after leastShort waits in a row that took no longer than shortWait. Each time
	// that none comes, twice as many are needed, mostShort at most: while a thread waits in the
	// kernel, Go's runtime wakes another every 20 us.
	shortWait  = time.Millisecond
	leastShort = 1
	mostShort  = 64
	// space is the memory for what one call may bring, and most the number of those datagrams.
	space = 64 << 10
	most  = 32
)

// newInlet returns an inlet, which receives datagrams of at most size bytes from a socket. Four reports whether the
// socket is an IPv4 socket. A receive polls the socket as spin allows before it blocks.
func newInlet(socket *os.File, size int, four bool, spin poll.Spinner) (*inlet, error) {
	count := min(max(space/size, 1), most)
	i := &inlet{space: make([]byte, count*size), parts: make([]unix.Iovec, count),
		names: make([]unix.RawSockaddrInet6, count), heads: make([]head, count), four: four,
		need: leastShort, spin: spin}
	for n := range i.heads {
		i.parts[n].Base = &i.space[n*size]
		i.parts[n].SetLen(size)
		i.heads[n].Iov = &i.parts[n]
		i.heads[n].SetIovlen(1)
		i.heads[n].Name = (*byte)(unsafe.Pointer(&i.names[n]))
		i.heads[n].Namelen = unix.SizeofSockaddrInet6
	}
	i.call, i.poll = i.receive, i.polled
	i.try = func() bool {
		if i.woken.Load() {
			i.came, i.err = 0, nil
			return true
		}
		return i.polled(0)
	}
	var err error
	if i.socket, err = socket.SyscallConn(); err != nil {
		return nil, err
	}
	if i.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(i.epoll, true); err != nil {
		unix.Close(i.epoll)
		return nil, os.NewSyscallError("fcntl", err)
	}
	i.ready = os.NewFile(uintptr(i.epoll), "datagrams")
	if i.poller, err = i.ready.SyscallConn(); err == nil {
		wait := unix.NsecToTimeval(int64(inKernel))
		err = control(i.socket, func(fd int) error {
			return errors.Join(unix.EpollCtl(i.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{}),
				unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait))
		})
	}
	if err != nil {
		i.ready.Close()
		return nil, err
	}
	return i, nil
}

// control calls f with the descriptor of a socket and returns the error of f, or an error if the socket is closed.
func control(socket syscall.RawConn, f func(fd int) error) (err error) {
	closed := socket.Control(func(fd uintptr) { err = f(int(fd)) })
	return errors.Join(closed, err)
}

// receive is one system call.
func (i *inlet) receive(fd uintptr) (done bool) {
	for n := range i.used {
		i.heads[n].Namelen = unix.SizeofSockaddrInet6
	}
	i.used = 0
	for {
		n, _, err := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&i.heads[0])), uintptr(len(i.heads)),
			uintptr(i.flags), 0, 0)
		if err == 0 {
			i.came, i.err, i.used = int(n), nil, int(n)
			return true
		}
		if i.came, i.err = 0, err; err != unix.EINTR {
			return true
		}
	}
}

// polled receives what is there, in Go's poller: false if that is nothing.
func (i *inlet) polled(uintptr) (done bool) {
	i.flags = unix.MSG_DONTWAIT
	return i.once() != unix.EAGAIN
}

func (i *inlet) once() error {
	if err := i.socket.Read(i.call); err != nil {
		i.came, i.err = 0, err
	}
	return i.err
}

// next waits for datagrams and says how many have come: none if Wake was called. direct: it may
// wait in the kernel.
func (i *inlet) next(direct bool) (int, error) {
	if direct && i.short >= i.need && i.wakes.Load() {
		if i.look(false) {
			go func() {}() // makes a thread look after Go's poller and timers, as this one did
		}
		i.inside.Store(true)
		if i.came, i.err = 0, nil; !i.spin.Poll(i.try) && !i.woken.Load() {
			i.flags = unix.MSG_WAITFORONE
			_ = i.once()
		}
		i.inside.Store(false)
		if i.err != unix.EAGAIN {
			i.need = max(i.need-1, leastShort)
			i.slept()
			return i.came, i.err
		}
		i.short, i.need = 0, min(2*i.need, mostShort)
	}
	if i.slept() {
		return 0, nil
	}
	i.look(true)
	began := time.Now()
	err := i.poller.Read(i.poll)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		i.woken.Store(true) // or it was for a wait before this one
		i.slept()
		return 0, nil
	case err != nil:
		return 0, net.ErrClosed
	}
	i.short++
	if time.Since(began) > shortWait {
		i.short = 0
	}
	return i.came, i.err
}

// look has ready look at the socket or not, and reports whether that is a change: what waits
// elsewhere must not be woken for it.
func (i *inlet) look(at bool) (changed bool) {
	if i.watch == at {
		return false
	}
	i.watch = at
	var e unix.EpollEvent
	if at {
		e.Events = unix.EPOLLIN | 1<<31 // EPOLLET, which is negative in package unix
	}
	_ = control(i.socket, func(fd int) error { return unix.EpollCtl(i.epoll, unix.EPOLL_CTL_MOD, fd, &e) })
	return true
}

// slept reports, once, whether Wake was called.
func (i *inlet) slept() bool {
	if !i.woken.Swap(false) {
		return false
	}
	_ = i.ready.SetReadDeadline(time.Time{}) // fails if it is closed, which comes again
	return true
}

// wake makes a next that is under way, or the next one, return.
func (i *inlet) wake(ourselves func()) {
	i.woken.Store(true)
	if i.inside.Load() {
		ourselves()
		return
	}
	_ = i.ready.SetReadDeadline(past)
}

var past = time.Unix(1, 0)

// datagram is one of those that next has brought.
func (i *inlet) datagram(n int) (from fabric.Tuple, b []byte) {
	name := &i.names[n]
	port := (*[2]byte)(unsafe.Pointer(&name.Port))
	from = fabric.Tuple{Kind: fabric.ETH6, Addr: name.Addr, Num: uint32(port[0])<<8 | uint32(port[1])}
	if i.four {
		from.Kind, from.Addr = fabric.ETH4, [16]byte{}
		copy(from.Addr[:], (*unix.RawSockaddrInet4)(unsafe.Pointer(name)).Addr[:])
	}
	return from, unsafe.Slice(i.parts[n].Base, i.heads[n].size)
}
