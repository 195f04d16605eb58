package native

import (
	"bufio"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// conn is a connection to an sshd until and while the session is up. It is a TCP connection, unless a
// test passes another one in. An
// unmodified sshd leaves Nagle's algorithm on until a channel opens, so that
// its second small write waits for our delayed acknowledgement, 40 ms each
// time. The kernel forgets TCP_QUICKACK: it is set again after each read.
type conn struct {
	net.Conn
	raw     syscall.RawConn // nil if Conn is not a socket
	quick   atomic.Bool
	began   time.Time
	last    atomic.Int64  // time from began to the last received byte, in nanoseconds
	onWords func()        // called by Read when the first bytes arrive, then set to nil
	arrived *bufio.Reader // buffers the socket, because package ssh reads the version line byte by byte
}

func newConn(c net.Conn, onWords func()) (*conn, error) {
	w := &conn{Conn: c, began: time.Now(), onWords: onWords}
	w.arrived = bufio.NewReaderSize(receiver{w}, 1024)
	if socket, ok := c.(syscall.Conn); ok {
		var err error
		if w.raw, err = socket.SyscallConn(); err != nil {
			return nil, err
		}
	}
	w.quick.Store(true)
	w.acknowledge()
	return w, nil
}

func (c *conn) acknowledge() {
	if c.raw == nil {
		return
	}
	_ = c.raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) })
}

// age is the time since the connection was made, whatever becomes of the clock
// on the wall.
func (c *conn) age() time.Duration { return time.Since(c.began) }

// received is the connection's age when something was last received.
func (c *conn) received() time.Duration { return time.Duration(c.last.Load()) }

// Read is for one goroutine.
func (c *conn) Read(p []byte) (int, error) { return c.arrived.Read(p) }

// receiver reads from the socket of c without a buffer and records when bytes arrived.
type receiver struct{ c *conn }

func (r receiver) Read(p []byte) (int, error) {
	n, err := r.c.Conn.Read(p)
	if n > 0 {
		r.c.last.Store(int64(r.c.age()))
		if r.c.onWords != nil {
			r.c.onWords()
			r.c.onWords = nil
		}
		if r.c.quick.Load() {
			r.c.acknowledge()
		}
	}
	return n, err
}

// inode is the number by which /proc/net/tcp names the socket; 0: unknown.
func (c *conn) inode() (n uint64) {
	if c.raw == nil {
		return 0
	}
	_ = c.raw.Control(func(fd uintptr) {
		var st unix.Stat_t
		if unix.Fstat(int(fd), &st) == nil {
			n = st.Ino
		}
	})
	return n
}
