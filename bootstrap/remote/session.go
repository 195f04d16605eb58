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

	"ibrun/internal/build"
)

// Session is one remote shell. Stdin and Stdout are the link to the agent once
// Start has returned; they are the caller's then, and end with the session.
type Session struct {
	Stdin    io.WriteCloser
	Stdout   io.Reader
	local    bool
	managed  bool   // a resource manager's starter carries it
	launcher string // name of the program that carries it; empty: none does
	shared   int    // sessions that this program carries; 0: one
	began    time.Time
	line     line
	stderr   tail
	noise    []byte    // what came on Stdout before the agent spoke
	phase    Phase     // Begin, Ship or Agent
	limit    time.Time // when the line's patience ends; zero: it has no limit
}

// line is what carries a session: a process of a launcher, or a connection of
// our own.
type line interface {
	Kill()
	abandon() // Kill, and also end what runs there and does not read
	Done() <-chan struct{}
	end() ending              // once Done
	pids() []int              // processes that belong to it
	inodes() map[string]bool  // its sockets, as /proc names them
	setLimit(time.Time)       // it is abandoned then, or reads and writes fail; zero: never
	drained() <-chan struct{} // closed when all of standard error has been read
	release()                 // once nobody reads any more
}

// ending is how a session ended: what could be seen of it.
type ending struct {
	code   int
	signal syscall.Signal // that ended it; 0: none
	lost   error          // the connection went first
}

const (
	maxNoise   = 64 << 10 // bytes that a login shell may print
	shipPiece  = 64 << 10 // bytes of the binary, each of which is progress
	tailSize   = 8 << 10
	stderrWait = 200 * time.Millisecond
)

var (
	errSilent = errors.New("no answer from it")
	errStuck  = errors.New("it took no more of the binary")
	errNoise  = errors.New("it printed more than 64 KiB before the agent spoke")
	errOther  = errors.New("another build of ibrun is there")
)

// meet reads until the agent's line, and ships the binary if asked to. A limit
// always stands: most, from the session's beginning, and from each piece of the
// binary that was taken.
func (ses *Session) meet(t Target, most time.Duration, progress func(Phase)) error {
	defer ses.allow(0)
	ses.allow(max(most-time.Since(ses.began), time.Millisecond))
	to := func(p Phase) {
		ses.phase = p
		progress(p)
	}
	to(Begin)
	in := bufio.NewReaderSize(ses.Stdout, 4<<10)
	ses.Stdout = in // frames may have come with the line
	var line []byte
	var last string // of the two marks that are answered
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
		// A far side that ends while it is written to may have said why.
		if err != nil && !closed(err) {
			return err
		}
		line = line[:0]
	}
}

// overdue is the error of a read or write that failed: instead, if the limit has
// passed.
func (ses *Session) overdue(err, instead error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(ses.limit) {
		return instead
	}
	return err
}

// closed reports whether an error means that the other end reads no more.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE)
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
	for _, m := range []string{agentMark, needMark, sendMark, failMark, otherMark, aloneMark} {
		i := bytes.Index(line, []byte(m))
		if i >= 0 && bytes.HasSuffix(line, []byte(lineEnd)) {
			return m, strings.Fields(string(line[i+len(m) : len(line)-len(lineEnd)]))
		}
	}
	return "", nil
}

// instruct tells the far side how to install the binary, if it could run it.
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

// unpacker is what a node reports as UNPACKER in ::ibrun-send if it can decompress the binary
// (docs/dev/protocol.md).
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
		f = io.NewSectionReader(p, 0, p.size)
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

// Pids are the processes that belong to the session; none if it is a connection
// of this process.
func (ses *Session) Pids() []int { return ses.line.pids() }

// Kill ends the session at once; the starter of a resource manager has a moment to end by itself.
func (ses *Session) Kill() { ses.line.Kill() }

// Managed reports whether the starter of a resource manager carries the session.
func (ses *Session) Managed() bool { return ses.managed }

// Release closes the session's output, of which nobody reads any more.
func (ses *Session) Release() { ses.line.release() }

// Done is closed when the session has ended.
func (ses *Session) Done() <-chan struct{} { return ses.line.Done() }

// Tail returns the last lines that the session printed besides frames. What a
// runtime says of its state when its node gave it too little helps nobody.
func (ses *Session) Tail() string {
	ses.drain()
	text := ses.stderr.String()
	if cause, _ := ses.died(); cause != "" {
		if i := traceIn(text); i >= 0 {
			text = text[:i]
		}
	}
	if noise := bytes.TrimSpace(ses.noise); len(noise) > 0 && len(text) < tailSize/2 {
		text = string(noise[max(0, len(noise)-tailSize/2):]) + "\n" + text
	}
	return strings.TrimSpace(text)
}

// leave lets a session whose output has ended end by itself, but not for long: the
// launcher closes its output first, and how it ends says why.
func (ses *Session) leave(ctx context.Context) {
	select {
	case <-ses.Done():
	case <-ctx.Done():
	case <-time.After(stderrWait):
	}
}

// drain waits, but not long, until all that the session printed has been read.
func (ses *Session) drain() {
	select {
	case <-ses.line.drained():
	case <-time.After(stderrWait):
	}
}
