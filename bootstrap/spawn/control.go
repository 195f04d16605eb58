package spawn

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// ControlFD is the number of the file descriptor by which a rank, or a member of a session, communicates with its
// agent.
const ControlFD = 3

// control is the agent's end of the connection to a rank, to one of its programs, to a client of a port, or to a member
// of a session. A reader goroutine reports the received data to events. Data for the other end is sent at once. If the
// other end does not accept all of it, or if a descriptor goes with it, a writer goroutine sends it from a queue. For a
// client of a port, awaitRoom limits the length of the queue. For a rank or a member, only the number of messages from
// the core and of answers to PMI requests limits it.
//
// All processes that a rank starts inherit its descriptor ControlFD. PMI words are sent over this descriptor without an
// envelope. A program of package ibrun sends Hello over it, with a socket of its own for all further messages. So the
// next program does not receive data that an earlier program has left half read.
type control struct {
	noun   string   // "rank" or "member" (of a session), for warnings
	rank   job.Slot // number of the member, if noun is "member"
	events Events

	mu      sync.Mutex
	file    socket        // nil until the connection is opened
	ended   chan struct{} // closed when the reading goroutine has returned; nil if none was started
	queue   []letter
	queued  int       // bytes that have not been sent
	changed sync.Cond // uses mu; signals a change of queue or of a field from queued to closed
	held    bool      // reading is suspended, and data from the other end waits in the socket
	unheard bool      // awaitRoom does not wait, because the other end is dead or the writer has ended
	writer  bool      // the writer goroutine was started
	closed  bool
	program *control // connection of the program that joined last; nil if none has joined

	finalized bool // the program has sent Finalize; only the reader uses this until ended is closed
}

// socket is the connection of a control: an *os.File or a *net.TCPConn.
type socket interface {
	io.Closer
	syscall.Conn
	SetReadDeadline(at time.Time) error
}

// letter is an entry of the queue: an encoded frame or PMI words, and possibly a file descriptor to send with it. The
// control owns the descriptor, and closes it after sending it.
type letter struct {
	frame []byte
	fd    int  // -1 if no descriptor is sent
	last  bool // close the control after this entry is sent
}

// newControl returns a control of the given rank, or of the member with this number, without a connection.
func newControl(rank job.Slot, events Events) *control {
	d := &control{noun: "rank", rank: rank, events: events}
	d.changed.L = &d.mu
	return d
}

// SocketPair returns the two ends of a pair of connected Unix stream sockets. Both are close-on-exec, so a child
// process inherits only an end that is passed to it explicitly.
func SocketPair() (a, b int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("socket pair: %w", err)
	}
	return fds[0], fds[1], nil
}

// open creates the connection. It stores the agent's end in d and returns the rank's end, which the caller must close.
func (d *control) open() (theirs *os.File, err error) {
	ours, other, err := SocketPair()
	if err != nil {
		return nil, err
	}
	_ = unix.SetNonblock(ours, true) // does not affect the rank's end, which stays blocking, as programs expect
	d.mu.Lock()
	d.file = os.NewFile(uintptr(ours), "control channel")
	d.mu.Unlock()
	return os.NewFile(uintptr(other), "rank's control channel"), nil
}

// serve starts read, which is d.read or d.readFrames, in a new goroutine. The process at the other end must be
// running.
func (d *control) serve(read func()) {
	d.mu.Lock()
	d.ended = make(chan struct{})
	d.mu.Unlock()
	go read()
}

// lastWords is the time for which the connection of a dead rank is still read if another process holds its other end
// open.
const lastWords = 100 * time.Millisecond

// drain reads and reports the data that a dead rank or member has sent, so that all of it is reported before its end.
// It returns when the reader goroutines have ended, at the end of the data or about lastWords later.
func (d *control) drain() {
	d.mu.Lock()
	ended := d.ended
	d.unheard = true
	d.changed.Broadcast()
	if ended != nil {
		_ = d.file.SetReadDeadline(time.Now().Add(lastWords))
	}
	d.mu.Unlock()
	if ended == nil {
		return
	}
	<-ended
	if p := d.joined(); p != nil {
		p.drain()
	}
}

// joined returns the connection of the program that joined the job last, or nil if none has joined.
func (d *control) joined() *control {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.program
}

// read is the reader goroutine of a rank's descriptor. Data that comes with a file descriptor is Hello, and the file
// descriptor is the program's own socket. Other data is PMI if the first data of the rank came without a file
// descriptor and begins with a letter. read warns the user of any other data, once.
func (d *control) read() {
	defer close(d.ended)
	in := &mouth{socket: d.file}
	defer in.discard()
	speaksPMI, warned := false, false
	b := make([]byte, pmiChunk) // reused: PMIReceived gets a copy of the data, which may be small
	for first := true; ; first = false {
		n, err := in.Read(b)
		hellos := in.take()
		for _, fd := range hellos {
			_ = unix.SetNonblock(fd, true) // before os.NewFile, so that the runtime's poller waits for data
			d.admit(os.NewFile(uintptr(fd), "program"), speaksPMI)
		}
		letter := n > 0 && b[0] >= 'A'
		speaksPMI = speaksPMI || first && letter && len(hellos) == 0
		switch {
		case n == 0 || len(hellos) > 0:
		case speaksPMI:
			d.events.PMIReceived(d.rank, bytes.Clone(b[:n]))
		case letter && d.joined() != nil:
			d.events.Warn(fmt.Sprintf("rank %d: a program that speaks PMI cannot join after one of the package ibrun: "+
				"start it as a job of its own", d.rank))
			in.shut()
			return
		case !warned:
			warned = true
			d.events.Warn(fmt.Sprintf("rank %d wrote something else to descriptor %d, which is its agent's: %.20q",
				d.rank, ControlFD, b[:n]))
		}
		if err != nil {
			return
		}
	}
}

// admit lets the program at the other end of f join the job, or sends it the reason why not. A rank can have one joined
// program at a time, because its peers cannot tell two programs apart. A program can follow another one only if that
// has sent Finalize, because peers may still wait for it otherwise.
func (d *control) admit(f *os.File, speaksPMI bool) {
	p := newControl(d.rank, d.events)
	p.file, p.ended = f, make(chan struct{})
	before, why := d.joined(), ""
	switch {
	case speaksPMI:
		why = "another program of this rank has joined the job by PMI: start this one as a job of its own"
	case before != nil && !before.over():
		why = "another program of this rank has joined the job and is not done: run one after the other"
	case before != nil && !before.finalized:
		why = "an earlier program of this rank ended without Finalize, and others may wait for it: " +
			"start this one as a job of its own"
	}
	if why != "" {
		p.turnAway(why)
		return
	}
	d.mu.Lock()
	d.program = p
	closed := d.closed
	d.mu.Unlock()
	if before != nil {
		before.close()
	}
	if closed {
		p.close()
	}
	d.events.RankFrame(core.RankFrame{Rank: d.rank, Msg: rankwire.Hello{}})
	go p.readFrames()
}

// goneWords limits how often over waits for the time lastWords for a program that has closed its socket. All data of
// the program has arrived, but the reader goroutine may run late on a busy node.
const goneWords = 50

// over reports whether the reader goroutine of a program has ended. It waits for the time lastWords, and longer if
// the program has closed its socket.
func (d *control) over() bool {
	for range goneWords {
		select {
		case <-d.ended:
			return true
		case <-time.After(lastWords):
			if !d.hungUp() {
				return false
			}
		}
	}
	return false
}

// hungUp reports whether no process has the other end open any more. It also returns true if d itself is closed.
func (d *control) hungUp() (gone bool) {
	raw, err := d.file.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}} // poll always reports POLLHUP
		_, _ = unix.Poll(fds, 0)
		gone = fds[0].Revents&unix.POLLHUP != 0
	})
	return gone || err != nil
}

// readFrames is the reader goroutine of a program's own socket, or of a member of a session. It ends after Finalize.
func (d *control) readFrames() {
	defer close(d.ended)
	in := &mouth{socket: d.file}
	defer in.discard()
	frames := rankwire.Vocabulary.NewReader(bufio.NewReaderSize(in, pmiChunk), frame.Rank)
	for {
		m, err := frames.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
				d.events.Warn(fmt.Sprintf("%s %d sent what no %s sends: %v; it is not listened to any more",
					d.noun, d.rank, d.noun, err))
			}
			return
		}
		if _, hello := m.(rankwire.Hello); hello {
			continue // admit has reported it already
		}
		_, d.finalized = m.(rankwire.Finalize)
		d.events.RankFrame(core.RankFrame{Rank: d.rank, Msg: m})
		if d.finalized {
			return
		}
	}
}

// tell queues the frame m for the program that joined last, with the file descriptor fd unless that is -1. If no
// program has joined, tell drops m and closes fd.
func (d *control) tell(m frame.Message, fd int) {
	l := letter{frame: frame.Append(nil, m), fd: fd}
	if p := d.joined(); p != nil {
		p.mail(l)
	} else {
		discard([]letter{l})
	}
}

// mostQueued is the number of bytes that may be queued for the other end while data from it is still read.
const mostQueued = 1 << 20

// awaitRoom blocks the reader while more than mostQueued bytes are queued for the other end, or while hold has
// suspended reading. It returns at once if d is closed, or the other end takes no more data.
func (d *control) awaitRoom() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for (d.queued > mostQueued || d.held) && !d.closed && !d.unheard {
		d.changed.Wait()
	}
}

// hold suspends reading from the other end if held is true, and resumes it if held is false.
func (d *control) hold(held bool) {
	d.mu.Lock()
	d.held = held
	d.mu.Unlock()
	d.changed.Broadcast()
}

// send encodes m and queues it for the other end.
func (d *control) send(m frame.Message) { d.enqueue(frame.Append(nil, m)) }

// turnAway sends a program the reason why it cannot join the job, and then closes the connection.
func (d *control) turnAway(why string) {
	d.mail(letter{frame: frame.Append(nil, rankwire.Refused{Text: why}), fd: -1, last: true})
}

// enqueue queues an encoded frame or words of PMI, without a descriptor.
func (d *control) enqueue(words []byte) { d.mail(letter{frame: words, fd: -1}) }

// finish closes the connection after all queued data is sent.
func (d *control) finish() { d.mail(letter{fd: -1, last: true}) }

// mail sends l, or queues what cannot be sent at once. It drops l and closes its file descriptor if the connection is
// not open.
func (d *control) mail(l letter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file == nil || d.closed {
		discard([]letter{l})
		return
	}
	if l = d.sendNow(l); len(l.frame) == 0 && !l.last {
		return
	}
	d.queue = append(d.queue, l)
	d.queued += len(l.frame)
	if !d.writer {
		d.writer = true
		go d.write()
	}
	d.changed.Broadcast()
}

// sendNow sends as much of l as possible without waiting, and returns the rest. It sends nothing if l has a file
// descriptor, or if the queue is not empty. The caller must hold d.mu.
func (d *control) sendNow(l letter) letter {
	if d.queued > 0 || len(d.queue) > 0 || l.fd >= 0 || len(l.frame) == 0 {
		return l
	}
	raw, err := d.file.SyscallConn()
	if err != nil {
		return l
	}
	_ = raw.Control(func(fd uintptr) {
		n, err := unix.SendmsgN(int(fd), l.frame, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		if err == nil {
			l.frame = l.frame[n:]
		}
	})
	return l
}

// write is the writer goroutine. It sends the entries of the queue, and ends after an entry with last set, after close,
// or when sending fails.
func (d *control) write() {
	raw, err := d.file.SyscallConn()
	defer d.took(0, true)
	for err == nil {
		d.mu.Lock()
		for len(d.queue) == 0 && !d.closed {
			d.changed.Wait()
		}
		batch := d.queue // empty if d is closed, since close clears the queue
		d.queue = nil
		d.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for i, l := range batch {
			if err = l.send(raw); err != nil {
				discard(batch[i+1:])
				break
			}
			d.took(len(l.frame), false)
			if l.last {
				d.close()
				return
			}
		}
	}
}

// took subtracts n sent bytes from d.queued, and wakes awaitRoom. If last is true, the writer has ended, so awaitRoom
// does not wait any more.
func (d *control) took(n int, last bool) {
	d.mu.Lock()
	d.queued -= n
	d.unheard = d.unheard || last
	d.mu.Unlock()
	d.changed.Broadcast()
}

// send writes l to raw. The file descriptor of l goes with the first byte. send closes it even if the write fails.
func (l letter) send(raw syscall.RawConn) error {
	var oob []byte
	if l.fd >= 0 {
		oob = unix.UnixRights(l.fd)
		defer unix.Close(l.fd)
	}
	rest := l.frame
	var fail error
	err := raw.Write(func(fd uintptr) bool {
		for len(rest) > 0 {
			n, err := unix.SendmsgN(int(fd), rest, oob, nil, unix.MSG_NOSIGNAL)
			switch err {
			case nil:
				rest, oob = rest[n:], nil
			case unix.EINTR:
			case unix.EAGAIN:
				return false
			default:
				fail = err
				return true
			}
		}
		return true
	})
	return errors.Join(err, fail)
}

// discard closes the file descriptors of letters that are not sent.
func discard(letters []letter) {
	for _, l := range letters {
		if l.fd >= 0 {
			unix.Close(l.fd)
		}
	}
}

// close closes the connection, because the rank is dead, was not started, or must not send more. It drops the queue,
// and also closes the connection of the program that joined last.
func (d *control) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.closed = true
	d.changed.Broadcast()
	discard(d.queue)
	d.queue = nil
	if d.file != nil {
		d.file.Close()
	}
	if d.program != nil {
		d.program.close()
	}
}

// Reply sends PMI words to a rank over its descriptor ControlFD.
func (s *Set) Reply(slot job.Slot, words []byte) { s.rank(slot).control.enqueue(words) }

// Tell sends the frame m to the program of a rank that joined last. It drops m if no program has joined.
func (s *Set) Tell(slot job.Slot, m frame.Message) { s.rank(slot).control.tell(m, -1) }

// Connect creates a socket pair and sends one end to each of two ranks of this node. If this fails, both ranks get a
// rankwire.Pair that says so.
func (s *Set) Connect(a, b job.Slot) {
	fa, fb, err := SocketPair()
	if err != nil {
		s.cfg.Events.Warn(fmt.Sprintf("ranks %d and %d cannot be connected: %v", a, b, err))
		s.Tell(a, rankwire.Pair{Rank: b, What: rankwire.Failed})
		s.Tell(b, rankwire.Pair{Rank: a, What: rankwire.Failed})
		return
	}
	s.rank(a).control.tell(rankwire.Pair{Rank: b}, fa)
	s.rank(b).control.tell(rankwire.Pair{Rank: a}, fb)
}
