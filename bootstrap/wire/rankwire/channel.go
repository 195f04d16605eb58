package rankwire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/wire/frame"
)

// ChannelVariable names the environment variable that holds the descriptor's number.
const ChannelVariable = "IBRUN_FD"

// ErrNoAgent says that this process was not started by ibrun.
var ErrNoAgent = errors.New("no agent: not started by ibrun")

// Channel is the open descriptor. Send may be called from any goroutine.
type Channel struct {
	conn   *net.UnixConn
	frames *frame.Reader
	rights rights

	mu  sync.Mutex // one frame at a time
	buf []byte
}

// OpenChannel takes the descriptor that the environment names, says hello and waits
// for the welcome, or until the context ends. The variable is removed, so that programs which this
// one starts do not take its place. The error is ErrNoAgent outside ibrun.
func OpenChannel(ctx context.Context) (*Channel, Welcome, error) {
	text, ok := os.LookupEnv(ChannelVariable)
	if !ok {
		return nil, Welcome{}, ErrNoAgent
	}
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 0 {
		return nil, Welcome{}, fmt.Errorf("%s=%q is not a descriptor", ChannelVariable, text)
	}
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || kind != unix.AF_UNIX {
		return nil, Welcome{},
			fmt.Errorf("descriptor %d of %s is not an agent's; was it closed by a program in between?", fd, ChannelVariable)
	}
	os.Unsetenv(ChannelVariable)
	os.Unsetenv("PMI_FD") // the same descriptor, for another protocol
	return NewChannel(ctx, os.NewFile(uintptr(fd), "agent"))
}

// NewChannel is OpenChannel for a descriptor that is already in hand; it takes f over.
func NewChannel(ctx context.Context, f *os.File) (*Channel, Welcome, error) {
	var w Welcome
	conn, err := hello(f)
	f.Close()
	if err != nil {
		return nil, w, err
	}
	c := &Channel{conn: conn, rights: rights{conn: conn}}
	c.frames = Vocabulary.NewReader(bufio.NewReader(&c.rights), frame.Agent)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	m, _, err := c.Next()
	if !stop() {
		return nil, w, fmt.Errorf("the agent gave no answer: %w", ctx.Err())
	}
	switch m := m.(type) {
	case Welcome:
		return c, m, nil
	case Refused:
		err = errors.New(m.Text)
	default:
		err = fmt.Errorf("the agent answered %v", m)
	case nil:
		err = fmt.Errorf("the agent gave no answer: %w", err)
	}
	conn.Close()
	return nil, w, err
}

// hello says Hello with one end of a new socket, and returns the other one, which
// is this program's alone.
func hello(f *os.File) (*net.UnixConn, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket for the agent: %w", err)
	}
	err = unix.Sendmsg(int(f.Fd()), frame.Append(nil, Hello{}), unix.UnixRights(ends[1]), nil,
		unix.MSG_NOSIGNAL)
	unix.Close(ends[1])
	mine := os.NewFile(uintptr(ends[0]), "agent")
	defer mine.Close()
	if err != nil {
		return nil, fmt.Errorf("descriptor of the agent: %w", err)
	}
	own, err := net.FileConn(mine)
	if err != nil {
		return nil, fmt.Errorf("socket for the agent: %w", err)
	}
	return own.(*net.UnixConn), nil
}

// Send writes one frame.
func (c *Channel) Send(m frame.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf = frame.Append(c.buf[:0], m)
	if _, err := c.conn.Write(c.buf); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	if cap(c.buf) > keptBuffer {
		c.buf = nil
	}
	return nil
}

// keptBuffer bounds what is kept for the next frame, in bytes.
const keptBuffer = 64 << 10

// Next waits for a frame from the agent. With a Pair that was found comes
// a connection, which is the caller's. One goroutine may call it.
func (c *Channel) Next() (frame.Message, net.Conn, error) {
	m, err := c.frames.Next()
	if err != nil {
		return nil, nil, err
	}
	if p, ok := m.(Pair); ok && p.What == Found {
		conn, err := c.rights.take()
		return m, conn, err
	}
	return m, nil, nil
}

// Close closes the descriptor; Next returns net.ErrClosed.
func (c *Channel) Close() error { return c.conn.Close() }

// rights reads the stream and keeps the descriptors that come along, in order.
type rights struct {
	conn *net.UnixConn
	fds  []int
	oob  [128]byte
}

func (r *rights) Read(p []byte) (int, error) {
	n, oobn, _, _, err := r.conn.ReadMsgUnix(p, r.oob[:])
	if oobn > 0 {
		r.collect(r.oob[:oobn])
	}
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return max(n, 0), err
}

func (r *rights) collect(oob []byte) {
	list, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	for i := range list {
		if fds, err := unix.ParseUnixRights(&list[i]); err == nil {
			r.fds = append(r.fds, fds...)
		}
	}
}

func (r *rights) take() (net.Conn, error) {
	if len(r.fds) == 0 {
		return nil, errors.New("the agent's answer lacks its socket; are too many files open? try ulimit -n 4096")
	}
	f := os.NewFile(uintptr(r.fds[0]), "peer")
	r.fds = r.fds[1:]
	defer f.Close()
	return net.FileConn(f)
}
