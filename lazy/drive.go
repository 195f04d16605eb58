package lazy

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"ibrun/internal/poll"
)

// streamDriver reads messages from a stream into an inbox. Either the goroutine that runs stream.receive reads, or a
// receiver that waits for messages.
type streamDriver struct {
	s    *stream
	from uint32 // slot of the peer
	in   *inbox
	turn *poll.Turn // held by the goroutine that reads
	conn net.Conn   // nil if a blocked Read cannot be interrupted; then only the goroutine of the stream reads

	mu    sync.Mutex // protects woken and the read deadline
	woken bool       // Wake has set the read deadline

	// Only the goroutine that holds turn uses the following fields.
	r     *reader
	batch [][]byte // buffer for the messages of one read
	came  uint64   // number of messages read so far
	err   error    // reason that reading has ended, or nil
}

// receive reads messages into the inbox until the stream ends. It returns the number of messages and the reason: io.EOF
// if the stream has ended between two messages, or errEndMark if the peer will send no more messages on it.
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
			d.turn.Wait() // returns with the turn, because End is not called before this function returns
		}
	}
	if d.err == errEndMark {
		return d.came, d.err
	}
	s.fail(d.err) // also unblocks writers
	return d.came, s.cause()
}

// read waits for messages and puts those that have arrived in the inbox. The caller has the turn.
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

// Drive waits for messages and reads them in the goroutine of the caller, which has the turn. If the stream has ended,
// Drive passes the turn to the goroutine of the stream, which handles the end.
func (d *streamDriver) Drive() {
	if d.read(); d.err != nil {
		d.turn.Pass()
		return
	}
	d.turn.Leave()
}

// Wake makes the current Drive, or the next one, return without waiting for a message.
func (d *streamDriver) Wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.woken = true
	_ = d.conn.SetReadDeadline(time.Unix(1, 0)) // fails if conn is closed, and then Drive returns, too
}

// slept handles an expired read deadline. If Wake has set the deadline, slept removes it and clears d.err. If the
// fabric has set it, d.err stays set and ends the stream.
func (d *streamDriver) slept() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.woken {
		d.woken = false
		d.err = d.conn.SetReadDeadline(time.Time{})
	}
}
