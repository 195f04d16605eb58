package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"ibrun/bootstrap/remote/native"
	"ibrun/internal/build"
)

// Session is a remote shell in which an agent runs. When Start has returned, Stdin and Stdout are the link to the
// agent. The caller reads and writes them until the session ends.
type Session struct {
	line
	Stdin    io.WriteCloser
	Stdout   io.Reader
	local    bool
	managed  bool   // a command of a resource manager, such as srun, carries the session
	launcher string // name of the program that carries the session, such as ssh, or empty without a program
	shared   int    // number of sessions that share one process of the launcher; 0 if the process is not shared
	began    time.Time
	stderr   tail
	noise    []byte    // output on Stdout before the agent's first line
	phase    Phase     // Begin, Ship or Agent
	limit    time.Time // deadline of reads and writes, set by allow; zero means no deadline
}

// line carries a session. It is a process of a launcher, a connection of package native, or a member of a step.
type line interface {
	// Kill ends the session. The starter of a resource manager is killed only if it does not end by itself within 1 s,
	// or within 5 s if it carries several sessions.
	Kill()
	// Done returns a channel that is closed when the session has ended.
	Done() <-chan struct{}
	// End returns how the session ended, as far as the line knows. It is valid when Done is closed.
	End() native.End
	// Pids returns the IDs of this machine's processes that belong to the line. It returns nil if this process itself
	// is the ssh client.
	Pids() []int
	// Release closes the session's output. The caller must not read Stdout any more.
	Release()
	abandon()                 // like Kill, but also ends a remote command that does not read its input
	inodes() []string         // inode numbers of the line's sockets, in decimal
	setLimit(time.Time)       // deadline at which reads and writes fail or the session is abandoned; zero removes it
	drained() <-chan struct{} // closed when all of standard error has been read
}

const (
	maxNoise   = 64 << 10               // maximum number of bytes before the agent's first line
	shipPiece  = 64 << 10               // bytes of the binary in one write; each write restarts the time limit
	tailSize   = 8 << 10                // approximate maximum size of Tail's result in bytes
	stderrWait = 200 * time.Millisecond // time limit of leave and of drain
)

var (
	errSilent = errors.New("no answer from it")
	errStuck  = errors.New("it took no more of the binary")
	errNoise  = errors.New("it printed more than 64 KiB before the agent spoke")
	errOther  = errors.New("another build of ibrun is there")
)

// meet reads lines until the agent's first line, and sends the binary if the node asks for it. It calls progress when a
// phase begins. It returns an error if the agent's first line has not arrived within the time most. The time starts
// with the session, and again with each write of a part of the binary.
func (ses *Session) meet(t Target, most time.Duration, progress func(Phase)) error {
	defer ses.allow(0)
	ses.allow(max(most-time.Since(ses.began), time.Millisecond))
	to := func(p Phase) {
		ses.phase = p
		progress(p)
	}
	to(Begin)
	in := bufio.NewReaderSize(ses.Stdout, 4<<10)
	ses.Stdout = in // in may have buffered frames that follow the agent's first line
	var line []byte
	var last string // the last of needMark and sendMark that was received, or empty if none was
	for {
		one, err := in.ReadByte()
		if err != nil {
			ses.noise = append(ses.noise, line...)
			return ses.overdue(err, errSilent)
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
			to(Agent)
			return ready(t.Host, words)
		case failMark:
			return &Error{Host: t.Host, Phase: Ship, Cause: strings.Join(words, " ")}
		case otherMark:
			return errOther
		case needMark:
			last = mark
			to(Ship)
			err = ses.instruct(words, most, t.role)
		case sendMark:
			last = mark
			err = ses.ship(most, slices.Equal(words, []string{unpacker}))
		default:
			ses.noise = append(ses.noise, line...)
		}
		// If the node has closed the link during a write, the lines that it wrote before may say why.
		if err != nil && !closed(err) {
			return err
		}
		line = line[:0]
	}
}

// overdue returns the error to report for a read or write that failed with err. This is the error instead if the time
// limit of the session has passed. Otherwise it is err.
func (ses *Session) overdue(err, instead error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(ses.limit) {
		return instead
	}
	return err
}

// closed reports whether err means that the node has closed the link.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE)
}

// allow sets the time limit for reads and writes to the time most from now, or removes it if most is 0.
func (ses *Session) allow(most time.Duration) {
	ses.limit = time.Time{}
	if most > 0 {
		ses.limit = time.Now().Add(most)
	}
	ses.setLimit(ses.limit)
}

// marked returns the mark in a line from the node and the words after the mark. If the line has no mark, it returns "".
// The mark may be in the middle of the line, because start-up files of the shell can print text without a newline.
func marked(line []byte) (mark string, words []string) {
	for _, m := range []string{agentMark, needMark, sendMark, failMark, otherMark, aloneMark} {
		i := bytes.Index(line, []byte(m))
		if i >= 0 && bytes.HasSuffix(line, []byte(lineEnd)) {
			return m, strings.Fields(string(line[i+len(m) : len(line)-len(lineEnd)]))
		}
	}
	return "", nil
}

// instruct sends the script install, with time limits derived from most. words are the words that followed needMark in
// the node's request. It returns an error if the node's machine type is not the one for which this binary was built.
func (ses *Session) instruct(words []string, most time.Duration, role string) error {
	if len(words) != 1 || words[0] != build.Machine() {
		return &Error{Phase: Ship, Cause: fmt.Sprintf("the node is %s, this ibrun is built for %s", strings.Join(words,
			" "), build.Machine()),
			Hint: "install an ibrun for that machine there and give its path with --agent-path"}
	}
	text, err := installer(most, role)
	if err != nil {
		return err
	}
	if _, err = io.WriteString(ses.Stdin, text); err != nil {
		return ses.overdue(err, errSilent)
	}
	return nil
}

// unpacker is the word after sendMark with which a node asks for the binary compressed with gzip. Without the word, the
// node asks for the plain binary (docs/dev/protocol.md).
const unpacker = "gzip"

// ship sends this binary to the node, compressed if unpacks is true. It returns an error if a single write takes longer
// than most, or if the whole transfer takes longer than max(most, shipTime).
func (ses *Session) ship(most time.Duration, unpacks bool) error {
	var f io.Reader
	if unpacks {
		p, err := packed()
		if err != nil {
			return err
		}
		f = io.NewSectionReader(p, 0, p.Size())
	} else {
		plain, err := build.Open()
		if err != nil {
			return err
		}
		defer plain.Close()
		f = plain
	}
	end := time.Now().Add(max(most, shipTime))
	for piece := make([]byte, shipPiece); ; {
		n, err := f.Read(piece)
		if err == io.EOF {
			ses.allow(most)
			return nil
		}
		if err != nil {
			return err
		}
		ses.allow(min(most, max(time.Until(end), time.Millisecond)))
		if _, err := ses.Stdin.Write(piece[:n]); err != nil {
			return ses.overdue(err, errStuck)
		}
	}
}

// Managed reports whether the starter of a resource manager, such as srun, carries the session.
func (ses *Session) Managed() bool { return ses.managed }

// Tail returns the last lines that the session printed on standard error, and before the agent's first line on standard
// output. If the agent crashed, the stack traces of Go's runtime are left out.
func (ses *Session) Tail() string {
	ses.drain()
	text := ses.stderr.String()
	if cause, _ := ses.died(); cause != "" {
		if i := lineIn(text, traces); i >= 0 {
			text = text[:i]
		}
	}
	if noise := bytes.TrimSpace(ses.noise); len(noise) > 0 && len(text) < tailSize/2 {
		text = string(noise[max(0, len(noise)-tailSize/2):]) + "\n" + text
	}
	return strings.TrimSpace(text)
}

// leave waits up to stderrWait for the end of a session whose output has ended. The launcher closes its output before
// it exits, and its exit code says why the session has ended.
func (ses *Session) leave(ctx context.Context) {
	select {
	case <-ses.Done():
	case <-ctx.Done():
	case <-time.After(stderrWait):
	}
}

// drain waits up to stderrWait until all of standard error has been read.
func (ses *Session) drain() {
	select {
	case <-ses.drained():
	case <-time.After(stderrWait):
	}
}
