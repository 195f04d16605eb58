package lazy

import (
	"context"
	"errors"

	"ibrun/lazy/peer"
)

// A pair that is idle too long gives its stream up. Both sides must agree, and
// each direction must be empty, before the stream is closed; then the pair
// talks by datagrams again, and may rest like any other.
//
//	open --LEAVE sent or agreed to--> draining --our end mark, RETURNED--> our direction is back
//	draining, both directions back, LEAVE heard --> none
//
// A side that is sending answers LEAVE with STAY.
type draining struct {
	ours, theirs bool // LEAVE was sent; was heard
	marked       bool // the end mark was sent, and RETURNED has not come
}

// endMark stands where a length would, as the last word of one direction.
const endMark = ^uint32(0)

var errEndMark = errors.New("the other side goes back to datagrams")

// leaveStream begins to give the stream up, if nobody is sending.
func (f *remotePeer) leaveStream() (begun bool) {
	m := &f.upgrade
	if m.stream == nil || m.drain.ours {
		return m.drain.ours
	}
	select {
	case f.turn <- struct{}{}:
	default:
		return false
	}
	m.drain.ours = true
	f.say(ctlLeave)
	if !m.sending || m.drain.marked { // the mark may be left of an attempt that was answered STAY
		<-f.turn
		return true
	}
	m.drain.marked = true
	s := m.stream
	f.t.readers.Go(func() { // the write may wait, and the lock of remote peers must not
		_ = s.mark(f.t.ctx)
		<-f.turn
	})
	return true
}

// heardLeave agrees if this side has nothing to send, and is not about to get
// the stream that the peer has already.
func (f *remotePeer) heardLeave() {
	f.upgrade.drain.theirs = true
	if !f.leaveStream() {
		f.upgrade.drain.theirs = false
		f.say(ctlStay)
	}
	f.closeDrained()
}

// returned says that the peer has read our direction to its end.
func (f *remotePeer) returned() {
	f.upgrade.sending, f.upgrade.drain.marked = false, false
	f.closeDrained()
	f.notify()
}

// readToTheEnd tells the peer that its direction is empty.
func (f *remotePeer) readToTheEnd() {
	f.upgrade.receiving, f.upgrade.switched = false, false
	f.say(ctlReturned)
	f.closeDrained()
}

// closeDrained closes the stream when both directions are back.
func (f *remotePeer) closeDrained() {
	m := &f.upgrade
	if !m.drain.ours || !m.drain.theirs || m.sending || m.drain.marked || m.receiving || m.switched {
		return
	}
	m.reset()
	f.notify()
	if f.t.live > f.t.cfg.MaxLive {
		f.t.step(f, peer.Event{Kind: peer.Rest})
	}
}

// mark writes the end mark of this direction.
func (s *stream) mark(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	return s.failed(write(s.conn, []byte{0xff, 0xff, 0xff, 0xff}))
}
