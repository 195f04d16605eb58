package lazy

import (
	"errors"
	"slices"
	"time"

	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// followUp holds the actions that step takes after it has performed all effects of an event.
type followUp struct {
	resend  [][]byte    // messages of a failed stream, which are sent again as datagrams
	offer   bool        // the Peer has emitted MakeOffer
	moved   bool        // the pair has moved to the other network
	resting *remotePeer // peer whose connection is to be closed if it is idle, or nil
}

// step passes an event to the Peer of f and performs the effects. No Peer gets another event until all effects have
// been performed: step passes events that result from them afterwards. The caller holds Table.fmu.
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
			next.resting = t.oldest(nil) // a connection that was busy before may be idle now
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
		f.mark(f.stream)
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

// openReady passes the events in t.ready to their Peers, oldest first, while t.opening permits more handshakes.
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

// failed handles the failure of a connection. If epoch is not 0, the cause is a restart of the peer with that epoch.
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
	if c == peer.TimedOut { // the peer runs and may wait for a lost message: only a receiver can end that
		t.in.alarm(f.err)
	}
}

// down records that a pair is not connected any more.
func (f *remotePeer) down() {
	f.leaveSlot()
	if f.up {
		f.up = false
		f.t.live--
	}
}

// drained wakes the sender and, after the first Send to a peer, records the latency.
func (f *remotePeer) drained() {
	if !f.began.IsZero() {
		f.t.latency(time.Since(f.began))
		f.began = time.Time{}
	}
	f.notify()
}

// oldest returns the connected peer that was used least recently, other than but, or nil.
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

// rest asks the Peer to give its stream up or, if there is none, to close the connection if it is idle.
func (f *remotePeer) rest() { f.t.step(f, peer.Event{Kind: peer.Rest, Busy: f.busy()}) }

// restIfCrowded calls rest for the peer that was used least recently if there are too many connections. The caller
// holds Table.fmu and is not performing effects.
func (t *Table) restIfCrowded() {
	if t.live <= t.cfg.MaxLive || t.stopped {
		return
	}
	if f := t.oldest(nil); f != nil {
		f.rest()
	}
}

// leaveAgain is the minimum time between two requests of a pair to give up a stream of the second network. The peer
// refuses while it is sending.
const leaveAgain = 20 * time.Millisecond

// leaveSecond asks the Peer to give up a stream of the second network after the pair has returned to the first one.
// busy is set if a sender may be about to write to the stream.
func (f *remotePeer) leaveSecond(busy bool) {
	s := f.stream
	if s == nil || f.t.secondary == nil || !isSecond(s.token) || f.peer.Secondary() || !f.peer.HasStream() ||
		time.Since(f.left) < leaveAgain {
		return
	}
	if _, second := f.peer.Addresses(); f.peer.Address() == second {
		return // the peer has no address on the first network
	}
	f.left = time.Now()
	f.t.step(f, peer.Event{Kind: peer.Rest, Busy: busy})
}
