package native

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// Session is a command that runs at the other end of a connection of its own.
// Its streams are the caller's until the session ends.
type Session struct {
	Stdin   io.WriteCloser
	Stdout  io.Reader
	channel ssh.Channel
	client  *ssh.Client
	conn    *conn
	done    chan struct{} // closed by watch, when end is written
	end     End
	alive   *keeper
	limit   *time.Timer // nil: none was set
}

// End is how a session ended. The zero value is a command that returned 0.
type End struct {
	Code   int            // exit code
	Signal syscall.Signal // signal that ended the process or the command, or 0
	Lost   error          // error that ended the connection before the exit code arrived, or nil
}

// Start logs in and runs a command for the user's login shell, without a
// terminal. It returns when the server has confirmed the command. What comes on
// the command's standard error, and the server's banner before that, is written
// to stderr, by one goroutine at a time. The context bounds the start only. The
// error is an *Error or an *Unfit.
func Start(ctx context.Context, cfg *Config, command string, stderr io.Writer, reached func(Phase)) (*Session,
	error) {
	l := &login{cfg: cfg, reached: reached, every: aliveInterval}
	l.banner = func(text string) { _, _ = io.WriteString(stderr, text) }
	l.dialer = l.dial
	return l.start(ctx, command, stderr)
}

func (l *login) start(ctx context.Context, command string, stderr io.Writer) (*Session, error) {
	client, c, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { client.Close() })
	defer stop()
	s, err := l.run(client, c, command, stderr)
	if err != nil {
		client.Close()
		if expired(ctx) {
			return nil, l.silent()
		}
		return nil, err
	}
	_ = c.SetDeadline(time.Time{})
	c.quick.Store(false)
	return s, nil
}

// run opens a session and starts the command in it.
func (l *login) run(client *ssh.Client, c *conn, command string, stderr io.Writer) (*Session, error) {
	l.to(Open)
	channel, requests, err := client.OpenChannel("session", nil)
	if err != nil {
		return nil, l.fail("sshd there allows no session (MaxSessions?): ssh HOST true", "%v", err)
	}
	for name, value := range l.cfg.Env {
		_, _ = channel.SendRequest("env", false, ssh.Marshal(struct{ Name, Value string }{name, value}))
	}
	s := &Session{
		Stdin: stdin{channel}, Stdout: channel, channel: channel, client: client, conn: c,
		done: make(chan struct{}), alive: keep(c, client, l.cfg.AliveCount, l.every),
	}
	var drained sync.WaitGroup
	drained.Go(func() { _, _ = io.Copy(stderr, channel.Stderr()) })
	go s.watch(requests, &drained)
	l.to(Exec)
	ok, err := channel.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{command}))
	switch {
	case err != nil:
		return nil, l.fail("", "its sshd closed the connection: %v", err)
	case !ok:
		return nil, l.fail("does the account run commands there? ssh HOST true", "its sshd refuses to run a command")
	}
	return s, nil
}

// stdin ends with the end of the command's standard input, not of the channel.
type stdin struct{ ssh.Channel }

func (s stdin) Close() error { return s.CloseWrite() }

// watch takes in how the command ended. The requests end with the channel.
func (s *Session) watch(requests <-chan *ssh.Request, drained *sync.WaitGroup) {
	end := End{Lost: errors.New("it was closed")}
	for r := range requests {
		switch {
		case r.Type == "exit-status" && len(r.Payload) >= 4:
			end = End{Code: int(binary.BigEndian.Uint32(r.Payload))}
		case r.Type == "exit-signal":
			var m struct {
				Name  string
				Core  bool
				Error string
				Lang  string
			}
			if ssh.Unmarshal(r.Payload, &m) == nil {
				end = End{Signal: unix.SignalNum("SIG" + m.Name)}
			}
		}
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
	}
	drained.Wait()
	s.client.Close()
	if err := s.client.Wait(); end.Lost != nil && err != nil {
		end.Lost = err
	}
	if err := s.alive.stop(); end.Lost != nil && err != nil {
		end.Lost = err
	}
	s.end = end
	close(s.done)
}

// Kill ends the session at once: the command's standard input ends, and
// nothing more comes of its output.
func (s *Session) Kill() { s.client.Close() }

// abandonTime is how long a command's end may take to be asked for.
const abandonTime = 200 * time.Millisecond

// Abandon is Kill, and also sends SIGTERM to what the command has in its process
// group, as a shell that sleeps does not see the end of its input. Servers before
// OpenSSH 7.9 do not do that.
func (s *Session) Abandon() {
	_ = s.conn.SetDeadline(time.Now().Add(abandonTime))
	_, _ = s.channel.SendRequest("signal", false, ssh.Marshal(struct{ Name string }{"TERM"}))
	s.client.Close()
}

// Limit sets a time at which the session is abandoned if it still has a limit
// then; zero takes the limit away. It is for one goroutine.
func (s *Session) Limit(t time.Time) {
	if s.limit != nil {
		s.limit.Stop()
	}
	if !t.IsZero() {
		s.limit = time.AfterFunc(time.Until(t), s.Abandon)
	}
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// End says how it ended, once it has.
func (s *Session) End() End { return s.end }

// Inode is the number by which /proc/net/tcp names the connection's socket, in
// decimal.
func (s *Session) Inode() string { return strconv.FormatUint(s.conn.inode(), 10) }
