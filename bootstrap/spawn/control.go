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

// ControlFD is the descriptor through which a rank talks to its agent.
const ControlFD = 3

// control is the agent's end of the connection to a rank, to one of its programs, to a client of a port, or to a member
// of a session. A reader goroutine reports the received data to events. Data for the other end is sent at once. If the
// other end does not accept all of it, or if a descriptor goes with it, a writer goroutine sends it from a queue. The
// core limits the number of its questions and answers, and so the length of the queue.
//
// All processes that a rank starts inherit its descriptor. PMI words are sent over this descriptor as they are. A
// program of package ibrun sends Hello over it, with a socket of its own for all further messages. So the next program
// does not receive data that an earlier program has left half read.
type control struct {
	noun   string // rank, or member of a session
	rank   job.Slot
	events Events

	mu      sync.Mutex
	file    socket        // nil if the connection is not open
	ended   chan struct{} // closed when the reading goroutine has returned; nil if none was started
	queue   []letter
	queued  int       // bytes that have not been sent
	changed sync.Cond // of mu: queue or a field from queued to closed has changed
	held    bool      // reading is suspended, and data from the other end waits in the socket
	unheard bool      // readers do not wait until the other end has read the queue
	writer  bool
	closed  bool
	program *control // the last one that was let in; nil: none has said Hello

	finalized bool // a program's: it has said so; of the reader until ended
}

// socket is the connection of a control: an *os.File or a *net.TCPConn.
type socket interface {
	io.Closer
	syscall.Conn
	SetReadDeadline(at time.Time) error
}

// letter is a frame or words of PMI and, if it carries one, the descriptor that
// goes with it. The control channel owns the descriptor.
type letter struct {
	frame []byte
	fd    int  // -1: none
	last  bool // the control channel closes when it is sent
}

func newControl(rank job.Slot, events Events) *control {
	d := &control{noun: "rank", rank: rank, events: events}
	d.changed.L = &d.mu
	return d
}

// SocketPair makes two ends that children do not inherit by accident.
func SocketPair() (a, b int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("socket pair: %w", err)
	}
	return fds[0], fds[1], nil
}

// open makes the descriptor; the rank's end is the caller's.
func (d *control) open() (theirs *os.File, err error) {
	ours, other, err := SocketPair()
	if err != nil {
		return nil, err
	}
	_ = unix.SetNonblock(ours, true) // the rank's end is another description, and stays as programs expect
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

// lastWords is how long the control channel of a dead rank is still listened to when
// something that the rank left behind holds it open.
const lastWords = 100 * time.Millisecond

// drain takes in what a dead rank has said, which must not come after its end.
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

// joined is the program that was let in last.
func (d *control) joined() *control {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.program
}

// read is the reader of a rank's descriptor. A Hello is what comes with a
// descriptor; words of PMI begin with a letter.
func (d *control) read() {
	defer close(d.ended)
	in := &mouth{socket: d.file}
	defer in.discard()
	speaksPMI, warned := false, false
	b := make([]byte, pmiChunk) // of the reader: a client may say much in small pieces
	for first := true; ; first = false {
		n, err := in.Read(b)
		hellos := in.take()
		for _, fd := range hellos {
			_ = unix.SetNonblock(fd, true) // before, so that the runtime's poller waits
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

// admit lets a program into the job, or tells it why not. Two at a time would be
// taken for one by everybody else, and one after another that said no Finalize may
// still be counted on.
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

// goneWords is for how many times lastWords a program that has closed its socket is waited for: what
// it said is here, and an agent that gets no processor comes to it late.
const goneWords = 50

// over waits a little for what a program has said to be read to its end.
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

// hungUp reports whether nobody has the other end any more.
func (d *control) hungUp() (gone bool) {
	raw, err := d.file.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}} // POLLHUP is told unasked
		_, _ = unix.Poll(fds, 0)
		gone = fds[0].Revents&unix.POLLHUP != 0
	})
	return gone || err != nil
}

// readFrames is the reader of a program's own socket.
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
			continue // it has been said
		}
		_, d.finalized = m.(rankwire.Finalize)
		d.events.RankFrame(core.RankFrame{Rank: d.rank, Msg: m})
		if d.finalized {
			return
		}
	}
}

// tell queues a frame for the rank's program, with a descriptor unless fd is -1.
func (d *control) tell(m frame.Message, fd int) {
	l := letter{frame: frame.Append(nil, m), fd: fd}
	if p := d.joined(); p != nil {
		p.mail(l)
	} else {
		discard([]letter{l})
	}
}

// mostQueued is how many bytes may wait for a caller before what it says is read on.
const mostQueued = 1 << 20

// awaitRoom waits until the other end has taken what is queued, but for mostQueued bytes, and may
// say more.
func (d *control) awaitRoom() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for (d.queued > mostQueued || d.held) && !d.closed && !d.unheard {
		d.changed.Wait()
	}
}

// hold lets what the other end says wait, or be read again.
func (d *control) hold(held bool) {
	d.mu.Lock()
	d.held = held
	d.mu.Unlock()
	d.changed.Broadcast()
}

// send queues m as a frame.
func (d *control) send(m frame.Message) { d.enqueue(frame.Append(nil, m)) }

// turnAway sends a program the reason why it cannot join the job, and then closes its channel.
func (d *control) turnAway(why string) {
	d.mail(letter{frame: frame.Append(nil, rankwire.Refused{Text: why}), fd: -1, last: true})
}

// enqueue queues an encoded frame or words of PMI, without a descriptor.
func (d *control) enqueue(words []byte) { d.mail(letter{frame: words, fd: -1}) }

// finish closes the control channel when all that is queued is sent.
func (d *control) finish() { d.mail(letter{fd: -1, last: true}) }

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

// sendNow sends what it can of a letter without waiting, and returns the rest. Descriptors are left
// to the writer, and so is what comes after a letter that waits.
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

// took notes that the other end has taken some bytes, or takes no more.
func (d *control) took(n int, last bool) {
	d.mu.Lock()
	d.queued -= n
	d.unheard = d.unheard || last
	d.mu.Unlock()
	d.changed.Broadcast()
}

// send writes a letter; the descriptor goes with its first byte, and is closed
// here in any case.
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

func discard(letters []letter) {
	for _, l := range letters {
		if l.fd >= 0 {
			unix.Close(l.fd)
		}
	}
}

// close ends the control: the rank is dead, or was never started.
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

// Reply sends words of PMI to a rank.
func (s *Set) Reply(slot job.Slot, words []byte) { s.rank(slot).control.enqueue(words) }

// Tell sends a frame to a rank.
func (s *Set) Tell(slot job.Slot, m frame.Message) { s.rank(slot).control.tell(m, -1) }

// Connect makes a socket pair for two ranks of this node and hands each its end.
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
