package spawn

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"ibrun/job"
)

// port is where ranks of this node that were not given a descriptor for PMI
// reach their agent: a TCP port of 127.0.0.1, there only if the job asks for
// it. Anybody on the machine can connect, so the kernel is asked whose process
// calls, and those of other users are hung up on. Each rank is started with a number
// of its own (PMI_ID; clients repeat any int), and a caller counts for nothing until
// it has said one. The zero value is closed.
type port struct {
	post   func(Event)
	warned bool // of accept

	mu     sync.Mutex
	number int              // TCP's
	ids    map[int]job.Slot // ranks by PMI_ID
	calls  map[uint32]*call
	last   uint32   // number of the last call
	silent []uint32 // calls that are bound to no rank, the oldest first
}

// call is a connection; nothing is ever sent with a descriptor.
type call struct {
	*control
	bound bool // to control.rank
}

// mostSilent is how many callers may be connected without having said whose
// they are. Ranks say it with their first words: when there are more, the one
// that has been silent for longest has to go.
const mostSilent = 64

// open listens, and makes up the numbers.
func (p *port) open(n job.Node, post func(Event)) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("--pmi-port: socket: %w", err)
	}
	at := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if err = unix.Bind(fd, at); err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	name, errName := unix.Getsockname(fd)
	if err = errors.Join(err, errName); err != nil {
		unix.Close(fd)
		return fmt.Errorf("--pmi-port: cannot listen on 127.0.0.1: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.post, p.number = post, name.(*unix.SockaddrInet4).Port
	p.ids, p.calls = map[int]job.Slot{}, map[uint32]*call{}
	for uint32(len(p.ids)) < n.Ranks {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails: Go ends the program instead
		id := int(binary.LittleEndian.Uint32(b[:]) >> 1)
		if _, taken := p.ids[id]; !taken {
			p.ids[id] = n.First + job.Slot(len(p.ids))
		}
	}
	go p.accept(os.NewFile(uintptr(fd), "port"))
	return nil
}

// environ is what a rank is told.
func (p *port) environ(rank job.Slot) []string {
	for id, r := range p.ids {
		if r == rank {
			return []string{"PMI_PORT=127.0.0.1:" + strconv.Itoa(p.number), "PMI_ID=" + strconv.Itoa(id)}
		}
	}
	return nil
}

// accept takes calls for as long as this process lives.
func (p *port) accept(f *os.File) {
	raw, err := f.SyscallConn()
	for err == nil {
		fd, fail := -1, error(nil)
		err = raw.Read(func(listener uintptr) bool {
			fd, _, fail = unix.Accept4(int(listener), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return fail != unix.EAGAIN
		})
		switch {
		case err != nil || fail == unix.EINTR || fail == unix.ECONNABORTED:
		case fail != nil: // out of descriptors or memory
			p.post(Warning{fmt.Sprintf("nobody can connect to PMI_PORT any more: %v", fail)})
			return
		default:
			p.answer(fd)
		}
	}
}

// answer takes a call of this user and hangs up on others. That somebody else
// calls is said once.
func (p *port) answer(fd int) {
	uid, err := callerOf(fd)
	if err == nil && uid == os.Geteuid() {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		p.take(os.NewFile(uintptr(fd), "call"))
		return
	}
	unix.Close(fd)
	if err == nil && !p.warned {
		p.warned = true
		p.post(Warning{fmt.Sprintf("user %d of this node calls PMI_PORT, and is not answered", uid)})
	}
}

// take begins a call.
func (p *port) take(f *os.File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	c, number := &call{control: newControl(0, p.post)}, p.last
	c.file, c.ended = f, make(chan struct{})
	p.calls[number] = c
	p.silent = append(p.silent, number)
	if len(p.silent) > mostSilent {
		p.calls[p.silent[0]].close()
		p.silent = p.silent[1:]
	}
	go func() {
		defer close(c.ended)
		readPMI(&mouth{File: f}, func(words []byte) { p.post(Called{number, words}) })
		c.close()
		p.forget(number)
		p.post(Hung{number})
	}()
}

func (p *port) forget(number uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, number)
	p.heard(number)
}

// heard takes a call from the silent ones.
func (p *port) heard(number uint32) {
	for i, n := range p.silent {
		if n == number {
			p.silent = append(p.silent[:i], p.silent[i+1:]...)
			return
		}
	}
}

// end takes in what callers for a dead rank have said, which must not come
// after its end, and hangs up.
func (p *port) end(rank job.Slot) {
	var ended []*call
	p.mu.Lock()
	for _, c := range p.calls {
		if c.bound && c.rank == rank {
			ended = append(ended, c)
		}
	}
	p.mu.Unlock()
	for _, c := range ended {
		c.drain()
		c.close()
	}
}

func (p *port) call(number uint32) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[number]
}

// Bind says which rank was started with a number, and gives it the call, which
// ends with the rank; refused says why there is none, for the caller.
func (s *Set) Bind(number uint32, id int) (rank job.Slot, refused string) {
	p := &s.port
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.calls[number]
	rank, known := p.ids[id]
	switch {
	case !known:
		return 0, "no rank has this PMI_ID"
	case c == nil:
		return 0, "the call is over"
	}
	p.heard(number)
	c.rank, c.bound = rank, true
	return rank, ""
}

// Answer sends words of PMI to a caller.
func (s *Set) Answer(number uint32, words []byte) {
	if c := s.port.call(number); c != nil {
		c.enqueue(words)
	}
}

// HangUp ends a call when all words to it are sent.
func (s *Set) HangUp(number uint32) {
	if c := s.port.call(number); c != nil {
		c.finish()
	}
}
