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

// ChannelVariable is the name of the environment variable with the number of the file descriptor that connects a rank
// to its agent.
const ChannelVariable = "IBRUN_FD"

// ErrNoAgent is returned by OpenChannel if ChannelVariable is not set, because ibrun has not started this process.
var ErrNoAgent = errors.New("no agent: not started by ibrun")

// Channel is a rank's connection to its agent. Send and Close may be called from several goroutines at once,
// but Next must not.
type Channel struct {
	conn   *net.UnixConn
	frames *frame.Reader
	rights rights

	mu  sync.Mutex // protects buf and writes to conn
	buf []byte     // memory for encoded frames, which Send reuses
}

// OpenChannel opens the descriptor in ChannelVariable, sends Hello, and returns the channel and the agent's Welcome. It
// waits for the Welcome until ctx is done. It unsets the variable, so that child processes do not join the job in place
// of this process. If the variable is not set, OpenChannel returns ErrNoAgent.
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
	os.Unsetenv("PMI_FD") // PMI_FD has the number of the same descriptor, for programs that use PMI
	return NewChannel(ctx, os.NewFile(uintptr(fd), "agent"))
}

// NewChannel is like OpenChannel, but uses the descriptor f instead of the one in ChannelVariable. It closes f.
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

// hello sends Hello and one end of a new socket pair over f, and returns the other end. The new socket replaces f,
// because other processes may have inherited f.
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

// Send writes m to the connection as one frame.
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

// keptBuffer is the maximum capacity of Channel.buf between two calls of Send, in bytes.
const keptBuffer = 64 << 10

// Next waits for a message from the agent and returns it. If the message is a Pair whose What is Found, Next also
// returns the connection to the other rank, which the caller must close. After Close, Next returns net.ErrClosed.
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

// Close closes the connection and unblocks Next.
func (c *Channel) Close() error { return c.conn.Close() }

// rights reads from a connection and queues the descriptors that arrive with the data.
type rights struct {
	conn *net.UnixConn
	fds  []int     // descriptors that take has not returned yet, oldest first
	oob  [128]byte // receives the control messages that contain descriptors
}

// Read implements io.Reader. It queues the descriptors that arrive with the data it reads.
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

// collect parses the control messages in oob and appends their descriptors to fds. It ignores invalid messages.
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

// take removes the oldest descriptor from the queue and returns it as a connection. An empty queue is an error, because
// the kernel drops a descriptor if the process has too many open files.
func (r *rights) take() (net.Conn, error) {
	if len(r.fds) == 0 {
		return nil, errors.New("the agent's answer lacks its socket; are too many files open? try ulimit -n 4096")
	}
	f := os.NewFile(uintptr(r.fds[0]), "peer")
	r.fds = r.fds[1:]
	defer f.Close()
	return net.FileConn(f)
}
