package remote

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"ibrun/internal/build"
)

// Session is one remote shell. Stdin and Stdout are the link to the agent once
// Start has returned; they are the caller's then, and end with the session.
type Session struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
	local  bool
	began  time.Time
	line   line
	stderr tail
	noise  []byte    // what came on Stdout before the agent spoke
	limit  time.Time // when the line's patience ends; zero: it has no limit
}

// line is what carries a session: a process of a launcher, or a connection of
// our own.
type line interface {
	Kill()
	Done() <-chan struct{}
	end() ending              // once Done
	pids() []int              // processes that belong to it
	inodes() map[string]bool  // its sockets, as /proc names them
	setLimit(time.Time)       // reads and writes fail from then on; zero: never
	drained() <-chan struct{} // closed when all of standard error has been read
}

// ending is how a session ended: what could be seen of it.
type ending struct {
	code   int
	signal syscall.Signal // that ended it; 0: none
	lost   error          // the connection went first
}

const (
	maxNoise   = 64 << 10 // bytes that a login shell may print
	shipTime   = 60 * time.Second
	tailSize   = 8 << 10
	stderrWait = 200 * time.Millisecond
)

var (
	errSilent = errors.New("no word from it in time")
	errNoise  = errors.New("it printed more than 64 KiB before the agent spoke")
	errOther  = errors.New("another build of ibrun is there")
)

// meet reads until the agent's line, and ships the binary if asked to. Some
// reading deadline always stands.
func (ses *Session) meet(t Target, most time.Duration, progress func(Phase)) error {
	defer ses.allow(0)
	ses.allow(most)
	in := bufio.NewReaderSize(ses.Stdout, 4<<10)
	ses.Stdout = in // frames may have come with the line
	var line []byte
	var last string // of the two marks that are answered
	for {
		one, err := in.ReadByte()
		if err != nil {
			ses.noise = append(ses.noise, line...)
			if errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(ses.limit) {
				return errSilent
			}
			return err
		}
		line = append(line, one)
		if len(ses.noise)+len(line) > maxNoise {
			ses.noise = append(ses.noise, line...)
			return errNoise
		}
		if one != '\n' {
			continue
		}
		mark, words := marked(line)
		if mark == needMark && last != "" || mark == sendMark && last != needMark {
			return &Error{Host: t.Host, Phase: Ship, Cause: "it asks for the binary out of turn, or again"}
		}
		switch mark {
		case agentMark:
			progress(Agent)
			return ready(t.Host, words)
		case failMark:
			return &Error{Host: t.Host, Phase: Ship, Cause: strings.Join(words, " ")}
		case otherMark:
			return errOther
		case needMark:
			last = mark
			progress(Ship)
			if err := ses.instruct(words); err != nil {
				return err
			}
		case sendMark:
			last = mark
			if err := ses.ship(); err != nil {
				return err
			}
		default:
			ses.noise = append(ses.noise, line...)
		}
		line = line[:0]
	}
}

// allow sets how long the session may take from now on; 0: for ever.
func (ses *Session) allow(most time.Duration) {
	ses.limit = time.Time{}
	if most > 0 {
		ses.limit = time.Now().Add(most)
	}
	ses.line.setLimit(ses.limit)
}

// marked finds one of our marks in a line; noise without a newline may stand
// before it.
func marked(line []byte) (mark string, words []string) {
	for _, m := range []string{agentMark, needMark, sendMark, failMark, otherMark} {
		i := bytes.Index(line, []byte(m))
		if i >= 0 && bytes.HasSuffix(line, []byte(lineEnd)) {
			return m, strings.Fields(string(line[i+len(m) : len(line)-len(lineEnd)]))
		}
	}
	return "", nil
}

// instruct tells the far side how to install the binary, if it could run it.
func (ses *Session) instruct(words []string) error {
	if len(words) != 1 || words[0] != build.Machine() {
		return &Error{Phase: Ship, Cause: fmt.Sprintf("the node is %s, this ibrun is built for %s", strings.Join(words, " "), build.Machine()),
			Hint: "install an ibrun for that machine there and give its path with --agent-path"}
	}
	ses.allow(shipTime)
	_, err := io.WriteString(ses.Stdin, installer())
	return err
}

// ship sends this binary, as the far side's script reads it.
func (ses *Session) ship() error {
	f, err := build.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	ses.allow(shipTime)
	if _, err := fmt.Fprintf(ses.Stdin, "%x %d\n", sum.Sum(nil), size); err != nil {
		return err
	}
	_, err = io.Copy(struct{ io.Writer }{ses.Stdin}, f)
	return err
}

// Pids are the processes that belong to the session; none if it is a connection
// of this process.
func (ses *Session) Pids() []int { return ses.line.pids() }

// Kill ends the session at once.
func (ses *Session) Kill() { ses.line.Kill() }

// Done is closed when the session has ended.
func (ses *Session) Done() <-chan struct{} { return ses.line.Done() }

// Tail returns the last lines that the session printed besides frames.
func (ses *Session) Tail() string {
	select {
	case <-ses.line.drained():
	case <-time.After(stderrWait):
	}
	text := ses.stderr.String()
	if noise := bytes.TrimSpace(ses.noise); len(noise) > 0 && len(text) < tailSize/2 {
		text = string(noise[max(0, len(noise)-tailSize/2):]) + "\n" + text
	}
	return strings.TrimSpace(text)
}

// Cause says how the session ended, once it has.
func (ses *Session) Cause() string {
	select {
	case <-ses.Done():
	default:
		return "its end of the link was closed"
	}
	what := "its session"
	if ses.local {
		what = "its guard"
	}
	switch e := ses.line.end(); {
	case e.lost != nil:
		return fmt.Sprintf("the connection to its sshd was lost: %v", e.lost)
	case e.signal != 0:
		return fmt.Sprintf("%s was killed by signal %d (%v)", what, e.signal, e.signal)
	case e.code > 128:
		n := syscall.Signal(e.code - 128)
		return fmt.Sprintf("the agent was killed by signal %d (%v)", n, n)
	default:
		return fmt.Sprintf("%s ended with code %d", what, e.code)
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
