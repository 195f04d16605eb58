package lazy

import (
	"errors"
	"slices"
	"time"

	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// followUp is what performing the effects of one event calls for, and what comes after the last of them.
type followUp struct {
	resend  [][]byte    // messages that go again as datagrams
	offer   bool        // the peer waits for an offer
	moved   bool        // the pair goes by another network
	resting *remotePeer // a peer whose connection is to be closed if it is idle
}

// step gives a peer an event and performs what comes of it. No peer gets an event while the effects of another one are
// performed: what they call for follows afterwards. The caller holds the lock of remote peers.
func (t *Table) step(f *remotePeer, ev peer.Event) {
	f.used = time.Since(t.began)
	var next followUp
	effects := f.peer.Step(f.used, ev)
	for i := range effects {
		t.perform(f, &effects[i], &next)
	}
	t.post()
	if t.cfg.afterStep != nil {
		t.cfg.afterStep(f.peer)
	}
	for _, m := range next.resend {
		t.step(f, peer.Event{Kind: peer.Send, Msg: m})
	}
	if next.offer {
		t.step(f, f.makeOffer())
	}
	if next.moved {
		f.leaveSecond(f.busy())
	}
	if next.resting != nil {
		next.resting.rest()
	}
	t.openReady()
}

func (t *Table) perform(f *remotePeer, e *peer.Effect, next *followUp) {
	switch e.Kind {
	case peer.Transmit:
		t.transmit(f, e)
	case peer.SetTimer:
		f.timer.Reset(max(0, e.At-time.Since(t.began)))
	case peer.Resolve:
		t.resolve(f, e.Least, e.Fresh)
	case peer.Deliver:
		t.in.arrived(Message{f.rank, e.Msg})
	case peer.DeliverBundle:
		for m, rest, ok := peer.CutBundled(e.Msg); ok; m, rest, ok = peer.CutBundled(rest) {
			t.in.arrived(Message{f.rank, m})
		}
	case peer.Opened:
		f.opened()
		if t.live > t.cfg.MaxLive {
			next.resting = t.oldest(f)
		}
	case peer.Closed:
		f.down()
		f.notify()
	case peer.Failed:
		f.failed(e.Cause, e.Least)
	case peer.Writable, peer.Notify:
		f.notify()
	case peer.Drained:
		f.drained()
		if t.live > t.cfg.MaxLive {
			next.resting = t.oldest(nil) // a connection that was busy when its turn came may be idle now
		}
	case peer.Renewed:
		f.renewed(e.Least)
	case peer.ResolveSecondary:
		t.askSecondary(f, f.peer.Epoch())
	case peer.Moved:
		f.moved()
		next.moved = true
	case peer.MakeOffer:
		next.offer = true
	case peer.Dial:
		t.dial(f, e.Token, e.Msg)
	case peer.Read:
		f.read(f.stream)
	case peer.Stop:
		f.stream.stop(errMoved)
	case peer.Again:
		f.resumes++
		next.resend = f.stream.resume(e.Have)
	case peer.Lose:
		if f.stream != nil && f.stream.unsure() {
			f.fail(t.about(f.rank, ErrFailed))
		}
	case peer.Mark:
		f.mark(f.stream) // the write may wait, and the lock of remote peers must not
	case peer.Close:
		f.close(e.Why)
	case peer.End:
		f.ended(ended(e.Why), e.Alarm)
	case peer.MayRest:
		if t.live > t.cfg.MaxLive {
			next.resting = f
		}
	}
}

// openReady passes on the answers in t.ready, and so starts handshakes, as far as the limit allows.
func (t *Table) openReady() {
	for len(t.ready) > 0 && t.ready[0].mayGo() {
		next := t.ready[0]
		t.ready = slices.Delete(t.ready, 0, 1)
		t.step(next.remote, next.ev)
	}
}

func (f *remotePeer) opened() {
	t := f.t
	t.early -= f.early
	f.early = 0
	f.leaveSlot()
	f.opens++
	f.up = true
	t.live++
	t.in.regain(f.rank)
	t.count(func(s *sums) {
		s[job.CountConnections]++
		if f.opens > 1 {
			s[job.CountReopened]++
		}
	})
	f.notify()
}

// failed handles the failure of a connection. If epoch is not 0, a newer start of the peer is the cause.
func (f *remotePeer) failed(c peer.Cause, epoch uint16) {
	t := f.t
	t.early -= f.early
	f.early = 0
	var cause error = ErrFailed
	switch c {
	case peer.Exited:
		cause = ErrEnded
	case peer.NoRank:
		cause = ErrRank
	case peer.TimedOut:
		cause = errors.New("no answer for 30 s, although it runs")
	case peer.Restarted, peer.WasReset:
		cause = errors.New(c.String())
	}
	f.down()
	if epoch > 0 {
		f.lostTo(epoch)
		f.notify()
		return
	}
	f.fail(f.t.about(f.rank, cause))
	if c == peer.TimedOut { // it runs, and may wait for what was lost: nobody else would end that
		t.in.alarm(f.err)
	}
}

// down takes a pair off those that are connected.
func (f *remotePeer) down() {
	f.leaveSlot()
	if f.up {
		f.up = false
		f.t.live--
	}
}

func (f *remotePeer) drained() {
	if !f.began.IsZero() {
		f.t.latency(time.Since(f.began))
		f.began = time.Time{}
	}
	f.notify()
}

// oldest returns the peer whose connection has been idle longest, without but, or nil.
func (t *Table) oldest(but *remotePeer) (oldest *remotePeer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.fars {
		if f != but && f.peer.State() == peer.Up && !f.peer.Draining() && (oldest == nil || f.used < oldest.used) {
			oldest = f
		}
	}
	return oldest
}

// rest closes the connection if it is idle; a stream is given up first.
func (f *remotePeer) rest() { f.t.step(f, peer.Event{Kind: peer.Rest, Busy: f.busy()}) }

// restIfCrowded closes the connection that has been idle longest if there are too many. The caller holds the lock of
// remote peers, and performs no effects.
func (t *Table) restIfCrowded() {
	if t.live <= t.cfg.MaxLive || t.stopped {
		return
	}
	if f := t.oldest(nil); f != nil {
		f.rest()
	}
}

// leaveAgain is how long a pair waits before it asks once more to give up a stream of the second
// network, for which the other side was at work.
const leaveAgain = 20 * time.Millisecond

// leaveSecond gives a stream of the second network up when the pair is back on the first. It is
// called when no sender has been told to use it, unless busy.
func (f *remotePeer) leaveSecond(busy bool) {
	s := f.stream
	if s == nil || f.t.secondary == nil || !isSecond(s.token) || f.peer.Secondary() || !f.peer.HasStream() ||
		time.Since(f.left) < leaveAgain {
		return
	}
	if _, second := f.peer.Addresses(); f.peer.Address() == second {
		return // it has no other
	}
	f.left = time.Now()
	f.t.step(f, peer.Event{Kind: peer.Rest, Busy: busy})
}
