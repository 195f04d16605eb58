package mem

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"ibrun/fabric"
)

// Why reads and writes fail that the near side has not ended itself.
var (
	errCut        = errors.New("mem: the network is cut")
	errPeerClosed = errors.New("mem: the other side is closed")
)

// flowLimit is what one direction of a stream holds, in bytes.
const flowLimit = 64 << 10

// flow is one direction of a stream.
type flow struct {
	mu      sync.Mutex
	changed sync.Cond
	chunks  []chunk
	size    int // bytes in chunks
	written uint64
	got     uint64 // bytes that the reader has taken
	onFail  func(error)
	aborted bool  // by the writer
	ended   bool  // by the writer: what is left can be read
	refused bool  // by the reader
	err     error // for both
	readBy  time.Time
	writeBy time.Time
	alarm   time.Time // the latest time that somebody is woken for
}

// chunk is what one write brought. No bytes: the end.
type chunk struct {
	at time.Time
	b  []byte
}

func newFlow() *flow {
	f := &flow{}
	f.changed.L = &f.mu
	return f
}

// change does something under the lock and lets all who wait look again.
func (f *flow) change(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what()
	f.changed.Broadcast()
}

// wakeAt lets all who wait look again at a time. It needs the lock.
func (f *flow) wakeAt(at time.Time) {
	if !f.alarm.Equal(at) {
		f.alarm = at
		time.AfterFunc(time.Until(at), func() { f.change(func() {}) })
	}
}

func past(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

func (f *flow) read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		switch {
		case f.refused:
			return 0, net.ErrClosed
		case f.err != nil:
			return 0, f.err
		case past(f.readBy):
			return 0, os.ErrDeadlineExceeded
		case len(f.chunks) == 0:
		case time.Now().Before(f.chunks[0].at):
			f.wakeAt(f.chunks[0].at)
		case len(f.chunks[0].b) == 0:
			return 0, io.EOF
		default:
			return f.take(p), nil
		}
		f.changed.Wait()
	}
}

func (f *flow) take(p []byte) int {
	first := &f.chunks[0]
	n := copy(p, first.b)
	first.b = first.b[n:]
	if len(first.b) == 0 {
		f.chunks = f.chunks[1:]
	}
	f.size -= n
	f.got += uint64(n)
	f.changed.Broadcast()
	return n
}

func (f *flow) write(p []byte, delay time.Duration) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		switch {
		case f.ended || f.aborted:
			return n, net.ErrClosed
		case f.err != nil:
			return n, f.err
		case f.refused:
			return n, errPeerClosed
		case past(f.writeBy):
			return n, os.ErrDeadlineExceeded
		case n == len(p):
			return n, nil
		case f.size < flowLimit:
			k := min(len(p)-n, flowLimit-f.size)
			f.chunks = append(f.chunks, chunk{time.Now().Add(delay), bytes.Clone(p[n : n+k])})
			f.size += k
			f.written += uint64(k)
			n += k
			f.changed.Broadcast()
		default:
			f.changed.Wait()
		}
	}
}

// conn is one end of a stream. It is a net.Conn, as those of fabric/udp are,
// and keeps deadlines.
type conn struct {
	net           *Network
	local, remote fabric.Tuple
	r, w          *flow
}

// newStream needs the network's lock.
func (n *Network) newStream(a, b fabric.Tuple) (*conn, *conn) {
	there, back := newFlow(), newFlow()
	local, remote := &conn{n, a, b, back, there}, &conn{n, b, a, there, back}
	n.streams[local], n.streams[remote] = true, true
	return local, remote
}

// fail ends both directions at once.
func (c *conn) fail(err error) {
	for _, f := range []*flow{c.r, c.w} {
		f.change(func() {
			if f.err = err; f.onFail != nil {
				go f.onFail(err)
				f.onFail = nil
			}
		})
	}
}

func (c *conn) Confirmed() (written, read uint64) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.w.written, c.w.got
}

func (c *conn) OnFail(call func(error)) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.w.err != nil {
		go call(c.w.err)
		return
	}
	c.w.onFail = call
}

// Abort implements fabric.Confirmer. The other side stays as it is, and hears nothing any more.
func (c *conn) Abort(err error) {
	c.net.mu.Lock()
	delete(c.net.streams, c)
	c.net.mu.Unlock()
	c.r.change(func() { c.r.refused = true })
	c.w.change(func() { c.w.aborted = true })
}

func (c *conn) Read(p []byte) (int, error) { return c.r.read(p) }

func (c *conn) Write(p []byte) (int, error) { return c.w.write(p, c.net.delay()) }

// Close ends this end; what it has written arrives, and then io.EOF.
func (c *conn) Close() error {
	c.net.mu.Lock()
	delete(c.net.streams, c)
	end := time.Now().Add(c.net.f.Delay)
	c.net.mu.Unlock()
	c.w.change(func() {
		if !c.w.ended {
			c.w.ended = true
			c.w.chunks = append(c.w.chunks, chunk{at: end})
		}
	})
	c.r.change(func() { c.r.refused = true })
	return nil
}

func (c *conn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.local.AddrPort()) }

func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote.AddrPort()) }

func (c *conn) SetDeadline(at time.Time) error {
	return errors.Join(c.SetReadDeadline(at), c.SetWriteDeadline(at))
}

func (c *conn) SetReadDeadline(at time.Time) error {
	c.r.change(func() { c.r.readBy = at; c.r.expect(at) })
	return nil
}

func (c *conn) SetWriteDeadline(at time.Time) error {
	c.w.change(func() { c.w.writeBy = at; c.w.expect(at) })
	return nil
}

func (f *flow) expect(deadline time.Time) {
	if !deadline.IsZero() {
		f.wakeAt(deadline)
	}
}
