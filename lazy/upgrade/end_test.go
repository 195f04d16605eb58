package upgrade

import (
	"encoding/binary"
	"time"

	"ibrun/lazy/peer"
)

// end is one rank of a pair: what package lazy holds, with its sender and receiver.
type end struct {
	w           *world
	self, other *rank
	peer        *peer.Peer
	up          Pair
	pipe        *pipe
	effects     []Effect
	timer       uint64
	dead        bool // its epoch has ended
	over        bool // the pair has ended for good
	alarmed     bool // and receivers of any rank were told
	connected   bool
	writing     bool
	woken       bool
	wasFull     bool // the window was full since the last stream
	outbox      []int
	waiting     []int // sequence numbers under way as datagrams; -1: a control
	flow        *flow
	flows       []*flow // by epoch
}

// flow is what one epoch sent to one rank.
type flow struct {
	sent    int
	excused int // those before it may be lost
	got     []bool
	last    int
}

func (f *flow) excuse() { f.excused = f.sent }

// step gives the Peer an event, and performs what comes of it, as a table does.
func (e *end) step(ev peer.Event) {
	r := e.self
	r.todo = append(r.todo, func() {
		if e.dead {
			return
		}
		for _, f := range e.peer.Step(e.w.Now, ev) {
			e.perform(&f)
		}
		e.waiting = e.waiting[max(0, len(e.waiting)-e.peer.Unacked()):]
	})
	if len(r.todo) > 1 {
		return
	}
	for i := 0; i < len(r.todo); i++ {
		r.todo[i]()
	}
	r.todo = r.todo[:0]
}

func (e *end) perform(f *peer.Effect) {
	w := e.w
	switch f.Kind {
	case peer.Transmit:
		e.post(f)
	case peer.Resolve:
		w.After(w.delay, e.answer)
	case peer.SetTimer:
		e.timer++
		mine := e.timer
		w.After(max(0, f.At-w.Now), func() {
			if mine == e.timer {
				e.step(peer.Event{Kind: peer.Tick})
			}
		})
	case peer.Deliver:
		e.delivered(binary.BigEndian.Uint16(f.Msg), int(binary.BigEndian.Uint32(f.Msg[2:])), "datagram")
		e.step(peer.Event{Kind: peer.Taken, N: len(f.Msg)})
	case peer.DeliverControl:
		w.Log("%d hears %v of %d", e.self.id, Control(f.Msg[0]), e.other.id)
		e.step(peer.Event{Kind: peer.Taken, N: len(f.Msg)})
		e.upgrade(Event{Kind: Received, Msg: f.Msg, Busy: e.busy()})
	case peer.Opened:
		e.connected = true
		e.upgrade(Event{Kind: Opened})
		e.notify()
	case peer.Closed:
		e.connected = false
		w.Log("%d closed to %d", e.self.id, e.other.id)
		e.upgrade(Event{Kind: Closed})
		e.notify()
	case peer.Failed:
		e.connected = false
		w.Log("%d failed to %d: %v, %d lost", e.self.id, e.other.id, f.Cause, f.Lost)
		if !e.mayFail() {
			w.Broken("%d failed to %d without a reason: %v", e.self.id, e.other.id, f.Cause)
		}
		e.waiting = e.waiting[min(f.Lost, len(e.waiting)):]
		e.flow.excuse()
		e.upgrade(Event{Kind: Failed})
		e.notify()
	case peer.Writable, peer.Drained:
		e.notify()
	}
}

// mayFail reports whether the schedule has a reason for a connection to fail.
func (e *end) mayFail() bool { return e.w.restarts > 0 }

// post is the network.
func (e *end) post(f *peer.Effect) {
	w, from, to := e.w, e.self, e.other
	ev := peer.Event{
		Kind: peer.Packet, Packet: f.Packet, Gen: f.Gen, SrcEpoch: from.epoch, DstEpoch: f.DstEpoch,
		Body: append([]byte(nil), f.Body...), Tuple: from.tuple(),
	}
	at := f.To
	arrive := func() {
		if to.alive && to.tuple() == at {
			o := to.ends[from.id]
			ev := ev
			ev.Keep = o.up.Kept()
			o.step(ev)
		}
	}
	if !w.chance(w.loss) {
		w.After(w.delay+w.UpTo(w.sway), arrive)
	}
	if w.chance(w.dup) {
		w.After(w.delay+w.UpTo(20*w.sway), arrive)
	}
}

// answer is the agent.
func (e *end) answer() {
	switch {
	case e.dead:
	case !e.other.alive:
		e.w.After(10*time.Millisecond, e.answer)
	default:
		e.step(peer.Event{Kind: peer.Resolved, Epoch: e.other.epoch, Tuple: e.other.tuple(), Fresh: true})
	}
}

// upgrade gives the Pair an event.
func (e *end) upgrade(ev Event) {
	if e.dead {
		return
	}
	e.doAll(e.up.Step(ev))
	if s := e.up.State(); s == None || s == Barred {
		e.wasFull = false
	}
}

func (e *end) doAll(effects []Effect) {
	if len(effects) == 0 {
		return
	}
	e.effects = append(e.effects, effects...)
	if len(e.effects) > len(effects) {
		return
	}
	for i := 0; i < len(e.effects); i++ {
		e.do(e.effects[i])
	}
	e.effects = nil
}

func (e *end) do(f Effect) {
	w := e.w
	switch f.Kind {
	case Send:
		w.Log("%d says %v to %d", e.self.id, f.Control, e.other.id)
		e.waiting = append(e.waiting, -1)
		e.step(peer.Event{Kind: peer.Control, Msg: f.Msg})
	case MakeOffer:
		if w.chance(w.noOffer) {
			e.upgrade(Event{Kind: OfferFailed, Why: errNoPort})
			return
		}
		w.tokens++
		ev := Event{Kind: OfferMade, Offer: []byte{byte(e.self.epoch)}}
		binary.BigEndian.PutUint64(ev.Token[:], w.tokens)
		e.upgrade(ev)
	case Dial:
		e.dial(f.Token, uint16(f.Offer[0]), w.Now+10*time.Second)
	case Read:
		e.pipe.read(e)
	case Mark:
		e.pipe.write(e, item{mark: true})
	case Close:
		e.shut()
	case End:
		w.Log("%d has lost %d: %v", e.self.id, e.other.id, f.Why)
		if w.breaks == 0 && w.restarts == 0 && (e.self.keeps && e.other.keeps || w.cuts == 0) {
			w.Broken("%d has lost %d without a reason: %v", e.self.id, e.other.id, f.Why)
		}
		e.over, e.alarmed = true, e.alarmed || f.Alarm
		e.outbox = nil
		e.flow.excuse()
		e.other.ends[e.self.id].flow.excuse()
	case Stop:
		own, _ := e.pipe.of(e)
		e.pipe.stop(own)
	case Lose:
		if w.restarts == 0 {
			w.Broken("%d has lost what it sent to %d", e.self.id, e.other.id)
		}
		e.flow.excuse()
	case Again:
		own, _ := e.pipe.of(e)
		for _, seq := range own.kept[f.Have:] {
			e.waiting = append(e.waiting, seq)
			e.step(peer.Event{Kind: peer.Send, Msg: e.body(seq, 100)})
		}
	case Notify:
		e.notify()
	case Idle:
		if w.Rand.IntN(2) == 0 {
			e.step(peer.Event{Kind: peer.Rest})
		}
	}
}

// rest is what an owner with too many connections does.
func (e *end) rest() {
	if e.dead {
		return
	}
	if e.up.Kept() {
		e.upgrade(Event{Kind: Rest, Busy: e.busy()})
		return
	}
	e.step(peer.Event{Kind: peer.Rest})
}

// busy reports whether a sender is at work, which one that waits for its turn is.
func (e *end) busy() bool { return e.writing || len(e.outbox) > 0 && !e.w.polls }

// send gives the sender a message.
func (e *end) send(size int) {
	if e.dead || e.over {
		return
	}
	e.outbox = append(e.outbox, size)
	e.notify()
}

// notify wakes the sender, which comes a little later.
func (e *end) notify() {
	if !e.woken {
		e.woken = true
		e.w.After(e.w.UpTo(20*time.Microsecond), func() {
			e.woken = false
			e.pump()
		})
	}
}

// pump is the sender: it hands over what goes, until it has to wait.
func (e *end) pump() {
	w := e.w
	for len(e.outbox) > 0 && !e.writing && !e.dead && !e.over {
		size := e.outbox[0]
		full := e.peer.Room() < size
		verdict, effects := e.up.Route(Message{Size: size, Full: full, Now: w.Now})
		e.outbox = e.outbox[1:] // the sender has the turn; what the effects bring up waits
		e.writing = true
		e.doAll(effects)
		e.writing = false
		e.wasFull = e.wasFull || full && e.connected && e.up.Kept()
		full = e.peer.Room() < size // less than before, when something was said
		switch {
		case verdict == ByStream:
			e.byStream()
			continue
		case verdict == ByDatagram && !full:
			if size > LongMessage || e.wasFull && e.up.State() == Open {
				w.Broken("%d sends %d bytes to %d as a datagram", e.self.id, size, e.other.id)
			}
			e.byDatagram(size)
			continue
		case verdict == ByDatagram && e.peer.Unacked() == 0:
			if e.up.State() != Barred {
				w.Broken("%d cannot send %d bytes to %d in %v", e.self.id, size, e.other.id, e.up.State())
			}
			continue // the application is told that there is no stream
		}
		e.outbox = append([]int{size}, e.outbox...)
		if w.polls {
			w.After(w.delay+time.Millisecond, e.notify)
		}
		return
	}
}

// next is the number of a message that is handed over.
func (e *end) next() int {
	e.flow.sent++
	e.flow.got = append(e.flow.got, false)
	return e.flow.sent - 1
}

func (e *end) byDatagram(size int) {
	seq := e.next()
	e.waiting = append(e.waiting, seq)
	e.step(peer.Event{Kind: peer.Send, Msg: e.body(seq, size)})
}

// body is a message by datagram.
func (e *end) body(seq, size int) []byte {
	m := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, e.self.epoch), uint32(seq))
	return append(m, make([]byte, size)...)[:max(size, len(m))]
}

func (e *end) byStream() {
	seq := e.next()
	e.writing = true
	s := e.pipe
	own, _ := s.of(e)
	own.kept = append(own.kept, seq) // before it is written
	done := func() {
		e.writing = false
		if !e.dead {
			s.write(e, item{epoch: e.self.epoch, seq: seq})
			e.notify()
		}
	}
	if d := e.w.UpTo(e.w.slow); d > 0 {
		e.w.After(d, done)
		return
	}
	done()
}

// delivered holds a message against what was promised.
func (e *end) delivered(epoch uint16, seq int, by string) {
	w, from := e.w, e.other
	w.Log("%d takes %d of %d, epoch %d, by %s", e.self.id, seq, from.id, epoch, by)
	f := from.ends[e.self.id].flows[epoch-1]
	switch {
	case seq >= f.sent || f.got[seq]:
		w.Broken("message %d of %d to %d came twice, by %s", seq, from.id, e.self.id, by)
		return
	case seq < f.last:
		w.Broken("message %d of %d to %d came after %d, by %s", seq, from.id, e.self.id, f.last, by)
	case epoch < from.epoch && e.newest() > epoch:
		w.Broken("message of epoch %d of %d to %d after one of the next", epoch, from.id, e.self.id)
	}
	f.got[seq], f.last = true, seq
}

// newest is the last epoch of the peer of which this one has taken something since
// it began.
func (e *end) newest() (epoch uint16) {
	for i, f := range e.other.ends[e.self.id].flows {
		if f.last >= 0 {
			epoch = uint16(i + 1)
		}
	}
	return epoch
}
