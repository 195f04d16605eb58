package lazy

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"ibrun/internal/poll"
)

// driver is what brings messages, and can be made to by a receiver who waits for them: a fabric, or
// a stream.
type driver interface {
	Turn() *poll.Turn
	Drive()
	Wake()
}

// drives is a receiver that drives.
type drives struct {
	d    driver
	from uint32
	any  bool
}

// streamDriver reads a stream for its own goroutine, or for a receiver in its place.
type streamDriver struct {
	s    *stream
	from uint32
	in   *inbox
	turn *poll.Turn
	conn net.Conn // nil: who reads cannot be woken, so only the goroutine may

	mu    sync.Mutex // of the deadline
	woken bool       // Wake has set it

	// of whose turn it is
	r     *reader
	batch [][]byte
	came  uint64
	err   error
}

// receive reads messages into the inbox until the stream ends, and says why:
// io.EOF if it ended between two messages, errEndMark if it may go on later. Came is how many they
// were.
func (s *stream) receive(from uint32, in *inbox, memory *bufferPool) (came uint64, err error) {
	d := &streamDriver{s: s, from: from, in: in, turn: poll.NewTurn(), r: newReader(s.conn, memory)}
	defer d.r.end()
	d.r.spin = s.spin
	defer d.turn.End()
	if d.r.raw != nil {
		d.conn, _ = s.conn.(net.Conn)
	}
	if d.conn != nil {
		in.readBy(from, d)
		defer in.readBy(from, nil)
	}
	for d.err == nil {
		in.full(from, s.done)
		if d.read(); d.err == nil && d.turn.Wanted() {
			d.turn.Leave()
			d.turn.Wait() // true: it is the last to use the turn
		}
	}
	if d.err == errEndMark {
		return d.came, d.err
	}
	s.fail(d.err) // also unblocks writers
	return d.came, s.cause()
}

// read reads some messages; the caller has the turn.
func (d *streamDriver) read() {
	d.batch, d.err = d.r.next(d.batch[:0])
	d.in.putAll(d.from, d.batch, d.s.start, d)
	d.came += uint64(len(d.batch))
	clear(d.batch)
	if errors.Is(d.err, os.ErrDeadlineExceeded) {
		d.slept()
	}
}

func (d *streamDriver) Turn() *poll.Turn { return d.turn }

// Drive reads some messages in the caller's goroutine. What ends the stream is its own goroutine's.
func (d *streamDriver) Drive() {
	if d.read(); d.err != nil {
		d.turn.Pass()
		return
	}
	d.turn.Leave()
}

// Wake makes a Drive that is under way, or the next one, return.
func (d *streamDriver) Wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.woken = true
	_ = d.conn.SetReadDeadline(time.Unix(1, 0)) // fails if it is closed, which wakes too
}

// slept takes a deadline back that Wake has set. One of the fabric's ends the stream.
func (d *streamDriver) slept() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.woken {
		d.woken = false
		d.err = d.conn.SetReadDeadline(time.Time{})
	}
}

// readBy says who brings a peer's messages by a stream; nil: nobody any more.
func (b *inbox) readBy(from uint32, d driver) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.source(from)
	if d == nil && b.recent == s.driver {
		b.recent = nil
	}
	s.driver = d
}

// wakeDrivers lets receivers who drive look again, if what has come may be for them; the caller
// holds the lock. Who has brought it looks anyway.
func (b *inbox) wakeDrivers(from uint32, by driver) {
	for _, e := range b.driving {
		if e.d != by && (e.any || e.from == from) {
			e.d.Wake()
		}
	}
}

// drive brings messages in this goroutine, which has the driver's turn, until
// something has arrived. The caller holds the lock, which this gives back.
func (b *inbox) drive(ctx context.Context, e drives) {
	b.driving = append(b.driving, e)
	b.mu.Unlock()
	var stop func() bool
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, e.d.Wake)
	}
	e.d.Drive()
	if stop != nil {
		stop()
	}
	b.mu.Lock()
	i := slices.Index(b.driving, e)
	b.driving = slices.Delete(b.driving, i, i+1)
	b.mu.Unlock()
}
