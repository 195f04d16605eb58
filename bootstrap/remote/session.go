package remote

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ibrun/internal/build"
	"ibrun/internal/proc"
)

// Session is one remote shell. Stdin and Stdout are the link to the agent once
// Start has returned; they are the caller's then, and end with the session.
type Session struct {
	Stdin  *os.File
	Stdout *os.File
	local  bool
	cmd    *proc.Process
	stderr tail
	noise  []byte // what came on Stdout before the agent spoke
	drain  chan struct{}
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
)

// open starts the launcher's process.
func (s *Starter) open(t Target) (*Session, error) {
	argv := s.argv(t)
	path := "/proc/self/exe"
	local := s.local || t.Local
	if !local {
		p, err := exec.LookPath(argv[0])
		if err != nil {
			return nil, err
		}
		path = p
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		inW.Close()
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		for _, f := range []*os.File{inR, inW, outR, outW} {
			f.Close()
		}
		return nil, err
	}
	ses := &Session{Stdin: inW, Stdout: outR, local: local, drain: make(chan struct{})}
	// A launcher dies with us, so that none is left behind. A guard of this very
	// machine must not: it and its agent clean up first.
	ses.cmd, err = proc.Start(proc.Cmd{
		Path: path, Argv: argv, Env: environ(local), Files: []*os.File{inR, outW, errW}, Setsid: true, Orphan: local,
	})
	for _, f := range []*os.File{inR, outW, errW} {
		f.Close()
	}
	if err != nil {
		for _, f := range []*os.File{inW, outR, errR} {
			f.Close()
		}
		return nil, err
	}
	go func() {
		defer close(ses.drain)
		defer errR.Close()
		_, _ = io.Copy(&ses.stderr, errR)
	}()
	return ses, nil
}

// environ is what a session's process sees. A local agent is not behind the
// connection by which the user came to this machine.
func environ(local bool) []string {
	env := os.Environ()
	if !local {
		return env
	}
	return slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, "SSH_CONNECTION=") })
}

// meet reads until the agent's line, and ships the binary if asked to. Some
// reading deadline always stands.
func (ses *Session) meet(t Target, most time.Duration, progress func(Phase)) error {
	defer ses.Stdout.SetReadDeadline(time.Time{})
	_ = ses.Stdout.SetReadDeadline(time.Now().Add(most))
	var line []byte
	one := make([]byte, 1)
	for {
		// Byte by byte, so that no frame that follows the line is swallowed: this
		// is a few dozen reads in a session's life, unless there is noise.
		if _, err := ses.Stdout.Read(one); err != nil {
			ses.noise = append(ses.noise, line...)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return errSilent
			}
			return err
		}
		line = append(line, one[0])
		if len(ses.noise)+len(line) > maxNoise {
			ses.noise = append(ses.noise, line...)
			return errNoise
		}
		if one[0] != '\n' {
			continue
		}
		mark, words := marked(line)
		switch mark {
		case agentMark:
			progress(Agent)
			return ready(t.Host, words)
		case failMark:
			return &Error{Host: t.Host, Phase: Ship, Cause: strings.Join(words, " ")}
		case needMark:
			progress(Ship)
			if err := ses.instruct(words); err != nil {
				return err
			}
		case sendMark:
			if err := ses.ship(); err != nil {
				return err
			}
		default:
			ses.noise = append(ses.noise, line...)
		}
		line = line[:0]
	}
}

// marked finds one of our marks in a line; noise without a newline may stand
// before it.
func marked(line []byte) (mark string, words []string) {
	for _, m := range []string{agentMark, needMark, sendMark, failMark} {
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
	_ = ses.Stdout.SetReadDeadline(time.Now().Add(shipTime))
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
	_ = ses.Stdin.SetWriteDeadline(time.Now().Add(shipTime))
	defer ses.Stdin.SetWriteDeadline(time.Time{})
	if _, err := fmt.Fprintf(ses.Stdin, "%x %d\n", sum.Sum(nil), size); err != nil {
		return err
	}
	_, err = io.Copy(struct{ io.Writer }{ses.Stdin}, f)
	return err
}

// Pid is the launcher's process.
func (ses *Session) Pid() int { return ses.cmd.Pid() }

// Kill ends the session: the launcher's whole process group.
func (ses *Session) Kill() { ses.cmd.SignalGroup(syscall.SIGKILL) }

// Done is closed when the launcher's process has ended.
func (ses *Session) Done() <-chan struct{} { return ses.cmd.Done() }

// Tail returns the last lines that the session printed besides frames.
func (ses *Session) Tail() string {
	select {
	case <-ses.drain:
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
	switch s := ses.cmd.Status(); {
	case s.Signaled():
		return fmt.Sprintf("%s was killed by signal %d (%v)", what, s.Signal(), s.Signal())
	case s.ExitStatus() > 128:
		n := syscall.Signal(s.ExitStatus() - 128)
		return fmt.Sprintf("the agent was killed by signal %d (%v)", n, n)
	default:
		return fmt.Sprintf("%s ended with code %d", what, s.ExitStatus())
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
