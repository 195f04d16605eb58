package spawn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/wire"
)

// DoorNumber is the descriptor through which a rank talks to its agent.
const DoorNumber = 3

// door is the agent's end of a rank's descriptor. A reader goroutine posts
// what the rank says; a writer goroutine, started with the first frame to the
// rank, empties a queue that the core's own questions and answers bound.
type door struct {
	rank uint32
	post func(Event)

	mu     sync.Mutex
	file   *os.File      // nil: not open
	ended  chan struct{} // closed when the reader has ended; nil: none was started
	queue  []letter
	wake   chan struct{} // capacity 1; full means the writer will look anyway
	writer bool
	closed bool
}

// letter is a frame or words of PMI and, if it carries one, the descriptor that
// goes with it. The door owns the descriptor.
type letter struct {
	frame []byte
	fd    int  // -1: none
	last  bool // the door closes when it is sent
}

func newDoor(rank uint32, post func(Event)) *door {
	return &door{rank: rank, post: post, wake: make(chan struct{}, 1)}
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
func (d *door) open() (theirs *os.File, err error) {
	ours, other, err := SocketPair()
	if err != nil {
		return nil, err
	}
	_ = unix.SetNonblock(ours, true) // the rank's end is another description, and stays as programs expect
	d.mu.Lock()
	d.file = os.NewFile(uintptr(ours), "door")
	d.mu.Unlock()
	return os.NewFile(uintptr(other), "rank's door"), nil
}

// serve starts the reader; the rank runs.
func (d *door) serve() {
	d.mu.Lock()
	d.ended = make(chan struct{})
	d.mu.Unlock()
	go d.read()
}

// lastWords is how long the door of a dead rank is still listened to when
// something that the rank left behind holds it open.
const lastWords = 100 * time.Millisecond

// drain takes in what a dead rank has said, which must not come after its end.
func (d *door) drain() {
	d.mu.Lock()
	ended := d.ended
	if ended != nil {
		_ = d.file.SetReadDeadline(time.Now().Add(lastWords))
	}
	d.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// read is the reader. A frame begins with a length of at most 64 MiB, so that
// its first byte is small; words of PMI begin with a letter.
func (d *door) read() {
	defer close(d.ended)
	in := bufio.NewReaderSize(&mouth{File: d.file}, pmiChunk)
	if first, err := in.Peek(1); err == nil && first[0] >= 'A' {
		readPMI(in, func(words []byte) { d.post(Spoke{d.rank, words}) })
		return
	}
	frames := wire.NewReader(in, wire.Rank)
	for {
		m, err := frames.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, unix.ECONNRESET) {
				d.post(Warning{fmt.Sprintf("rank %d wrote something else to descriptor %d: %v; it is not listened to any more", d.rank, DoorNumber, err)})
			}
			return
		}
		d.post(Said{d.rank, m})
	}
}

// mouth is a door's file whose deadline ends the wait for words, and takes none
// back that are there already: on a busy node the reader comes late.
type mouth struct {
	*os.File
	late int // bytes that were read after the deadline
}

// lateWords is how much is read after the deadline: more than a socket holds, and
// not all that somebody can say who never stops.
const lateWords = 1 << 20

func (m *mouth) Read(b []byte) (n int, err error) {
	n, err = m.File.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) || m.late >= lateWords {
		return n, err
	}
	raw, again := m.SyscallConn()
	if again != nil {
		return 0, err
	}
	if raw.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), b) }) != nil || n <= 0 {
		return 0, err
	}
	m.late += n
	return n, nil
}

// pmiChunk is the most of what a rank says by PMI that is posted at a time.
const pmiChunk = 4096

func readPMI(in io.Reader, said func(words []byte)) {
	for {
		b := make([]byte, pmiChunk)
		n, err := in.Read(b)
		if n > 0 {
			said(b[:n])
		}
		if err != nil {
			return
		}
	}
}

// tell queues a frame, with a descriptor unless fd is -1.
func (d *door) tell(m wire.Message, fd int) { d.enqueue(wire.Append(nil, m), fd) }

// enqueue queues bytes, with a descriptor unless fd is -1.
func (d *door) enqueue(b []byte, fd int) { d.mail(letter{frame: b, fd: fd}) }

// finish closes the door when all that is queued is sent.
func (d *door) finish() { d.mail(letter{fd: -1, last: true}) }

func (d *door) mail(l letter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file == nil || d.closed {
		discard([]letter{l})
		return
	}
	d.queue = append(d.queue, l)
	if !d.writer {
		d.writer = true
		go d.write()
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *door) write() {
	raw, err := d.file.SyscallConn()
	for err == nil {
		d.mu.Lock()
		batch := d.queue
		d.queue = nil
		closed := d.closed
		d.mu.Unlock()
		for i, l := range batch {
			if err = l.send(raw); err != nil {
				discard(batch[i+1:])
				break
			}
			if l.last {
				d.close()
				return
			}
		}
		if closed {
			return
		}
		if len(batch) == 0 {
			<-d.wake
		}
	}
}

// send writes a letter; the descriptor goes with its first byte, and is closed
// here in any case.
func (l letter) send(raw interface {
	Write(func(fd uintptr) bool) error
}) error {
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

// close ends the door: the rank is dead, or was never started.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.closed = true
	discard(d.queue)
	d.queue = nil
	if d.file != nil {
		d.file.Close()
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Reply sends words of PMI to a rank.
func (s *Set) Reply(number uint32, words []byte) { s.rank(number).door.enqueue(words, -1) }

// Tell sends a frame to a rank.
func (s *Set) Tell(number uint32, m wire.Message) { s.rank(number).door.tell(m, -1) }

// Connect makes a socket pair for two ranks of this node and hands each its end.
func (s *Set) Connect(a, b uint32) {
	fa, fb, err := SocketPair()
	if err != nil {
		s.cfg.Post(Warning{fmt.Sprintf("ranks %d and %d cannot be connected: %v", a, b, err)})
		s.Tell(a, wire.Pair{Rank: b, What: wire.Failed})
		s.Tell(b, wire.Pair{Rank: a, What: wire.Failed})
		return
	}
	s.rank(a).door.tell(wire.Pair{Rank: b}, fa)
	s.rank(b).door.tell(wire.Pair{Rank: a}, fb)
}
