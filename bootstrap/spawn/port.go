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

// port is a TCP port on 127.0.0.1 at which the ranks of this node connect to their agent. It is opened only if ranks
// may need it. Every process of the machine can connect, so the port asks the kernel for the user of each client, and
// closes the connections of other users. A connection belongs to no rank until Bind is called, after the client has
// identified itself by data that only a rank knows. The zero value is a port that is not open.
type port struct {
	name     string // as warnings call the port
	events   Events
	received func(call uint32, b []byte) // reports bytes from the connection with the number call
	closed   func(call uint32)           // reports the end of the connection, after all its bytes
	warned   bool                        // a connection of another user was closed, and the user of the job was warned
	first    func()                      // called before data of the first client is read, then set to nil
	tried    bool                        // open was called; not used by the port of PMI
	err      error                       // error that open returned

	mu     sync.Mutex
	number int              // number of the TCP port; 0 until open has succeeded
	calls  map[uint32]*call // open connections by their numbers
	last   uint32           // number of the newest connection; the first has number 1
	silent []uint32         // numbers of the connections that are bound to no rank, the oldest first
}

// call is one connection to a port. Descriptors are never sent over it.
type call struct {
	*control
	bound bool // Bind has bound the connection to the rank control.rank
}

// mostSilent is the maximum number of connections that are bound to no rank. A rank identifies itself in its first
// message, so few connections are unbound. If there are more, the port closes the oldest of them.
const mostSilent = 64

// open listens on a TCP port of 127.0.0.1 that the kernel chooses.
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

// answer serves a connection from a process of this user, and closes any other connection. It warns of the first
// connection of another user.
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

// take registers the connection f of a client, and starts to read from it. If too many connections are bound to no
// rank, take closes the oldest of them.
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

// forget removes a closed connection.
func (p *port) forget(number uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, number)
	p.bound(number)
}

// bound removes a connection from p.silent, because it was bound to a rank or closed. The caller must hold p.mu.
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

// end reads what remains on the connections of a dead rank, and closes them. When end returns, all data of the rank has
// been reported, so the end of the rank can be reported next.
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

// call returns the connection with the given number, or nil if it is closed.
func (p *port) call(number uint32) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[number]
}

// Send queues b for the client at the connection with the given number. It drops b if the connection is closed.
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
