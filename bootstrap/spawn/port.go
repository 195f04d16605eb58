package spawn

import (
	"fmt"
	"net"
	"os"
	"slices"
	"sync"

	"ibrun/internal/exit"
	"ibrun/internal/job"
)

// port is where ranks of this node connect to their agent: a TCP port of 127.0.0.1, there only if
// ranks may need it. Anybody on the machine can connect, so the kernel is asked whose process
// calls, and those of other users are hung up on. A caller counts for nothing until it has said
// what only a rank knows. The zero value is closed.
type port struct {
	name     string // for warnings
	events   Events
	received func(call uint32, b []byte) // reports bytes that a connection has received
	closed   func(call uint32)           // reports that a connection has ended
	warned   bool                        // a connection of another user has been refused, and the user was warned
	first    func()                      // called before the first client is read from, if not nil; nil afterwards
	tried    bool                        // open was called, when the first rank that needs the port was started
	err      error                       // error that open returned

	mu     sync.Mutex
	number int // TCP's
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

// open listens on a port of the loopback interface that the kernel chooses.
func (p *port) open() error {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return fmt.Errorf("%s: cannot listen on 127.0.0.1: %w", p.name, exit.Cause(err))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number, p.calls = l.Addr().(*net.TCPAddr).Port, map[uint32]*call{}
	go p.accept(l)
	return nil
}

// accept accepts connections until an error occurs, and reports the error as a warning.
func (p *port) accept(l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		if err != nil { // for example, the process has no free descriptor
			p.events.Warn(fmt.Sprintf("nobody can connect to %s any more: %v", p.name, exit.Cause(err)))
			return
		}
		p.answer(c)
	}
}

// answer serves a connection from a process of this user, and closes a connection from a process of another user. It
// warns of the first one that it closes for this reason.
func (p *port) answer(c *net.TCPConn) {
	uid, err := Caller(c)
	if err == nil && uid == os.Geteuid() {
		if p.first != nil {
			p.first()
			p.first = nil
		}
		p.take(c)
		return
	}
	c.Close()
	if err == nil && !p.warned {
		p.warned = true
		p.events.Warn(fmt.Sprintf("user %d of this node calls %s, and is not answered", uid, p.name))
	}
}

// take starts to read from the connection f of a client.
func (p *port) take(f *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	c, number := &call{control: newControl(0, p.events)}, p.last
	c.file, c.ended = f, make(chan struct{})
	p.calls[number] = c
	p.silent = append(p.silent, number)
	if len(p.silent) > mostSilent {
		p.calls[p.silent[0]].close()
		p.silent = p.silent[1:]
	}
	go func() {
		defer close(c.ended)
		readPMI(&mouth{socket: f}, func(b []byte) {
			p.received(number, b)
			c.awaitRoom()
		})
		c.close()
		p.forget(number)
		p.closed(number)
	}()
}

func (p *port) forget(number uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, number)
	p.bound(number)
}

// bound removes a connection from p.silent, the connections that are not bound to a rank yet.
func (p *port) bound(number uint32) {
	p.silent = slices.DeleteFunc(p.silent, func(n uint32) bool { return n == number })
}

// Bind binds the connection with the given number to a rank, so that it is closed when the rank ends. Bind returns
// false if the connection is already closed.
func (p *port) Bind(number uint32, rank job.Slot) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.calls[number]
	if c == nil {
		return false
	}
	p.bound(number)
	c.rank, c.bound = rank, true
	return true
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

// Send queues b for the client that has the connection with the given number.
func (p *port) Send(number uint32, b []byte) {
	if c := p.call(number); c != nil {
		c.enqueue(b)
	}
}

// HangUp closes the connection with the given number after all bytes that Send has queued for it are sent.
func (p *port) HangUp(number uint32) {
	if c := p.call(number); c != nil {
		c.finish()
	}
}

// Hold suspends reading from the connection with the given number if held is true, and resumes it if held is false.
// While reading is suspended, data from the client waits in the socket.
func (p *port) Hold(number uint32, held bool) {
	if c := p.call(number); c != nil {
		c.hold(held)
	}
}
