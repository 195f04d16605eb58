package remote

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ibrun/bootstrap/remote/native"
	"ibrun/internal/build"
	"ibrun/internal/hostlist"
)

// step is a step of a resource manager that starts the agents of several hosts at once. Its
// standard streams are no links: each agent calls back (call.go). The port is open until all have
// called or are given up.
//
//	waiting --call--> linked --Kill--> left          when all have left, the step ends
//	waiting --no agent there, or time is up--> alone: it gets a session of its own
type step struct {
	key     stepKey
	srun    Session // its process, and what that prints
	mu      sync.Mutex
	port    *net.TCPListener // nil: closed
	members map[string]*member
	waiting int           // members
	linked  int           // members
	began   chan struct{} // closed: srun has its process, or err
	err     error
	unknown int // connections whose proof has not come
}

// member is the line of one session of a step. A step starts the agents of several hosts with one command.
type member struct {
	*step
	host    string
	session *Session
	conn    *net.TCPConn  // connection of the agent that the step started, or nil
	decided chan struct{} // closed when conn is set, or when it is decided that the agent will not connect
	kill    sync.Once
	ended   sync.Once
	over    chan struct{} // closed when the session has ended and the field how is valid
	how     native.End
}

// errAlone means that a host needs a session of its own, because the step started no agent on it.
var errAlone = errors.New("the step brought no agent")

// stepShare is the part of a session's time that a step may take, so that there is time for
// sessions after it.
const stepShare = 3

// mostUnknown is how many connections may be about to prove themselves, besides those expected.
const mostUnknown = 64

// Share lets one step start the agents of all targets that it can. Each still is to be started, all
// at once. A job that repairs its tree shares nothing: the loss of a session costs one node there.
func (s *Starter) Share(targets []*Target) {
	if s.alloc == nil || !s.how.SharesSteps() || s.how.Repair {
		return
	}
	groups := map[string][]*Target{} // by the number of their hosts
	for _, t := range targets {
		if !t.Local {
			n := s.alloc.number(t.Host)
			groups[n] = append(groups[n], t)
		}
	}
	for _, group := range groups {
		if len(group) > 1 {
			s.share(group)
		}
	}
}

func (s *Starter) share(group []*Target) {
	port, err := net.ListenTCP("tcp", nil)
	if err != nil {
		return
	}
	st := &step{port: port, members: map[string]*member{}, began: make(chan struct{})}
	_, _ = rand.Read(st.key[:])
	var hosts []string
	for _, t := range group {
		if st.members[t.Host] != nil {
			continue
		}
		m := &member{step: st, host: t.Host, decided: make(chan struct{}), over: make(chan struct{})}
		m.session = &Session{managed: true, line: m, began: time.Now()}
		st.members[t.Host], t.member = m, m
		hosts = append(hosts, t.Host)
	}
	st.waiting = len(hosts)
	call := fmt.Sprintf("%s=%d %s", callVariable, port.Addr().(*net.TCPAddr).Port, hex.EncodeToString(st.key[:]))
	script := taskText(s.how, build.Path(), s.role())
	go func() {
		defer close(st.began)
		st.err = s.carry(&st.srun, carrier{s.alloc.argv(script, hosts...), append(s.environ(false), call), false,
			s.how.Timeout, &stepErrors{step: st}, farewells})
		if st.err != nil {
			st.aloneAll()
			return
		}
		for _, m := range st.members {
			m.session.launcher, m.session.shared = st.srun.launcher, len(hosts)
		}
		go st.listen(port)
		go st.follow()
	}()
}

// join waits until the agent of m has connected, for at most the time most. The error is an *Error or errAlone.
func (m *member) join(ctx context.Context, most time.Duration, progress func(Phase)) (*Session, error) {
	progress(Begin)
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-m.decided:
	case <-ctx.Done():
	case <-late.C:
	}
	m.decide(m, nil)
	switch {
	case m.conn != nil:
	case ctx.Err() != nil:
		return nil, &Error{Host: m.host, Phase: Begin, Cause: ctx.Err().Error()}
	default:
		return nil, errAlone
	}
	m.session.Stdin, m.session.Stdout = sender{m.conn}, m.conn
	return m.session, nil
}

// decide stores the connection of the agent of m. If conn is nil, m gets no connection. Only the first call for m has
// an effect and returns true.
func (s *step) decide(m *member, conn *net.TCPConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-m.decided:
		return false
	default:
	}
	if m.conn = conn; conn != nil {
		s.linked++
	}
	close(m.decided)
	if s.waiting--; s.waiting == 0 {
		s.port.Close()
		s.endIfLeft()
	}
	return true
}

func (s *step) aloneAll() {
	for _, m := range s.members {
		s.decide(m, nil)
	}
}

// endIfLeft ends the step when nobody needs it any more. The caller has locked it.
func (s *step) endIfLeft() {
	if s.waiting > 0 || s.linked > 0 {
		return
	}
	go func() {
		if <-s.began; s.err == nil {
			s.srun.Kill()
		}
	}()
}

// listen takes calls until the port is closed.
func (s *step) listen(port *net.TCPListener) {
	for {
		conn, err := port.AcceptTCP()
		if err != nil {
			return
		}
		s.mu.Lock()
		known := s.unknown < mostUnknown+s.waiting
		if known {
			s.unknown++
		}
		s.mu.Unlock()
		if !known {
			conn.Close()
			continue
		}
		go func() {
			taken := s.take(conn)
			s.mu.Lock()
			s.unknown--
			s.mu.Unlock()
			if !taken {
				conn.Close()
			}
		}()
	}
}

// take makes a call the link of its member.
func (s *step) take(conn *net.TCPConn) bool {
	_ = conn.SetDeadline(time.Now().Add(callSeconds * time.Second))
	host, err := s.key.ask(conn)
	m := s.members[host]
	if err != nil || m == nil {
		return false
	}
	_ = conn.SetDeadline(time.Time{})
	return s.decide(m, conn)
}

// follow reads what tasks print that are no agents, until the step ends, which ends all members.
func (s *step) follow() {
	lines := bufio.NewScanner(s.srun.Stdout)
	for lines.Scan() {
		switch mark, words := marked(append(lines.Bytes(), '\n')); {
		case mark == otherMark:
			s.aloneAll() // nobody knows whose it is; who calls later is refused
		case mark == aloneMark && len(words) == 1 && s.members[words[0]] != nil:
			s.decide(s.members[words[0]], nil)
		}
	}
	<-s.srun.Done()
	s.srun.Release()
	s.aloneAll()
	for _, m := range s.members {
		m.finish(s.srun.End())
	}
}

// finish notes how a member has ended, once.
func (m *member) finish(how native.End) {
	m.ended.Do(func() {
		m.how = how
		close(m.over)
	})
}

// stepErrors takes what srun prints. It names the hosts of tasks that have ended badly:
//
//	srun: error: node[0003-0004]: tasks 2-3: Exited with exit code 137
type stepErrors struct {
	step *step
	rest []byte // of a line
}

func (e *stepErrors) Write(p []byte) (int, error) {
	e.rest = append(e.rest, p...)
	for {
		line, rest, whole := strings.Cut(string(e.rest), "\n")
		if !whole {
			e.rest = e.rest[max(0, len(e.rest)-tailSize):]
			return len(p), nil
		}
		e.rest = []byte(rest)
		e.step.printed(line)
	}
}

func (s *step) printed(line string) {
	_, rest, _ := strings.Cut(line, "error: ")
	hosts, rest, found := strings.Cut(rest, ": task")
	_, what, _ := strings.Cut(rest, ": ")
	var of []*member
	if found {
		of = s.named(hosts)
	}
	if len(of) == 0 {
		for _, m := range s.members {
			_, _ = m.session.stderr.Write([]byte(line + "\n"))
		}
		return
	}
	for _, m := range of {
		_, _ = m.session.stderr.Write([]byte(line + "\n"))
		s.decide(m, nil)
		m.finish(endingOf(what))
	}
}

// named are the members of a list of hosts.
func (s *step) named(list string) (of []*member) {
	entries, err := hostlist.Names(list)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		for run, i := runOf(e), uint32(0); i < min(run.Count, uint32(len(s.members))); i++ {
			if m := s.members[run.Host(i)]; m != nil {
				of = append(of, m)
			}
		}
	}
	return of
}

// endingOf is the end of a task in srun's words.
func endingOf(what string) native.End {
	if code, found := strings.CutPrefix(what, "Exited with exit code "); found {
		n, _ := strconv.Atoi(code)
		return native.End{Code: n}
	}
	for n := syscall.Signal(1); n <= maxSignal; n++ {
		if strings.EqualFold(n.String(), strings.TrimSuffix(what, " (core dumped)")) {
			return native.End{Code: killed + int(n)}
		}
	}
	return native.End{Code: 1}
}

// sender is the writing end of a link.
type sender struct{ *net.TCPConn }

func (s sender) Close() error { return s.CloseWrite() }

// Kill ends the link, and the step with the last one.
func (m *member) Kill() {
	m.kill.Do(func() {
		m.conn.Close()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.linked--
		m.endIfLeft()
	})
}

func (m *member) abandon() {
	m.Kill()
	m.finish(native.End{})
}

func (m *member) Done() <-chan struct{} { return m.over }

func (m *member) End() native.End { return m.how }

func (m *member) Pids() []int { return m.srun.Pids() }

func (m *member) inodes() (found []string) {
	if raw, err := m.conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { found = sockets(fmt.Sprintf("/proc/self/fd/%d", fd)) })
	}
	return found
}

func (m *member) setLimit(t time.Time) { _ = m.conn.SetDeadline(t) }

func (m *member) drained() <-chan struct{} { return m.srun.drained() }

func (m *member) Release() { m.conn.Close() }
