package peer

import (
	"encoding/binary"
	"time"
)

// streamEnd simulates what a rank of package lazy has for one other rank: a Peer, a sender and a receiver.
type streamEnd struct {
	w           *streamWorld
	self, other *streamRank
	peer        *Peer
	pipe        *pipe
	timer       uint64
	dead        bool // the process of this rank has ended
	over        bool // this rank has performed the effect End
	alarmed     bool // End was reported also to receivers that accept messages of any rank
	connected   bool
	writing     bool
	woken       bool
	wasFull     bool // a message was longer than Room since the last stream ended
	outbox      []int
	flow        *streamFlow
	flows       []*streamFlow // one for each epoch of this rank, in order
}

// streamFlow records the messages from one epoch of a rank to another rank.
type streamFlow struct {
	sent    int
	excused int // messages with a lower number may be lost
	got     []bool
	last    int
}

func (f *streamFlow) excuse() { f.excused = f.sent }

// followUp contains the actions that step postpones until it has performed all effects, as package lazy does.
type followUp struct {
	offer, mayRest bool
	taken          int
	again          []int
}

// step passes an event to the Peer and performs the effects, as lazy.Table does.
func (e *streamEnd) step(ev Event) {
	if e.dead {
		return
	}
	w := e.w
	ev.Busy = e.busy()
	var next followUp
	for _, f := range e.peer.Step(w.Now, ev) {
		e.perform(&f, &next)
	}
	if err := e.peer.Check(); err != nil {
		w.Broken("%d to %d: %v", e.self.id, e.other.id, err)
		return
	}
	if next.taken > 0 {
		e.step(Event{Kind: Taken, N: next.taken})
	}
	for _, seq := range next.again {
		e.step(Event{Kind: Send, Msg: e.body(seq, 100)})
	}
	if next.offer {
		e.step(e.offer())
	}
	if next.mayRest && w.Rand.IntN(2) == 0 {
		e.step(Event{Kind: Rest})
	}
}

func (e *streamEnd) perform(f *Effect, next *followUp) {
	w := e.w
	switch f.Kind {
	case Transmit:
		e.post(f)
	case Resolve:
		w.After(w.delay, e.answer)
	case ResolveSecondary:
		w.After(w.delay, func() { e.step(Event{Kind: SecondaryFound, Tuple: e.other.second()}) })
	case SetTimer:
		e.timer++
		mine := e.timer
		w.After(max(0, f.At-w.Now), func() {
			if mine == e.timer {
				e.step(Event{Kind: Tick})
			}
		})
	case Deliver:
		e.delivered(binary.BigEndian.Uint16(f.Msg), int(binary.BigEndian.Uint32(f.Msg[2:])), "datagram")
		next.taken += len(f.Msg)
	case Opened:
		e.connected = true
		e.notify()
	case Closed:
		e.connected = false
		w.Log("%d closed to %d", e.self.id, e.other.id)
		e.notify()
	case Failed:
		e.connected = false
		w.Log("%d failed to %d: %v, %d lost", e.self.id, e.other.id, f.Cause, f.Lost)
		if !e.mayFail() {
			w.Broken("%d failed to %d without a reason: %v", e.self.id, e.other.id, f.Cause)
		}
		e.flow.excuse()
		e.notify()
	case Writable, Drained, Notify:
		e.notify()
	case MakeOffer:
		next.offer = true
	case Dial:
		e.dial(f.Token, uint16(f.Msg[0]), w.Now+10*time.Second)
	case Read:
		e.pipe.read(e)
	case Mark:
		p := e.pipe
		w.After(0, func() {
			if !e.dead && e.pipe == p {
				p.write(e, item{mark: true})
			}
		})
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
		next.again = own.kept[f.Have:]
	case MayRest:
		next.mayRest = true
	}
}

// offer returns the event that answers MakeOffer.
func (e *streamEnd) offer() Event {
	w := e.w
	if w.chance(w.noOffer) {
		return Event{Kind: OfferFailed, Why: errNoPort}
	}
	w.tokens++
	ev := Event{Kind: OfferMade, Msg: []byte{byte(e.self.epoch)}}
	binary.BigEndian.PutUint64(ev.Token[:], w.tokens)
	return ev
}

// mayFail reports whether a connection may fail in this schedule.
func (e *streamEnd) mayFail() bool { return e.w.restarts > 0 }

// post simulates the network: it delivers, delays, duplicates or drops a packet.
func (e *streamEnd) post(f *Effect) {
	w, from, to := e.w, e.self, e.other
	ev := Event{
		Kind: Packet, Packet: f.Packet, Gen: f.Gen, SrcEpoch: from.epoch, DstEpoch: f.DstEpoch, Path: f.Path,
		Body: append([]byte(nil), f.Body...), Tuple: from.tuple(),
	}
	at := f.To
	if at.Kind.Ethernet() {
		ev.Tuple = from.second()
	}
	arrive := func() {
		if to.alive && (to.tuple() == at || to.second() == at) {
			to.ends[from.id].step(ev)
		}
	}
	if !w.chance(w.loss) {
		w.After(w.delay+w.UpTo(w.sway), arrive)
	}
	if w.chance(w.dup) {
		w.After(w.delay+w.UpTo(20*w.sway), arrive)
	}
}

// answer passes the answer of the simulated agent to Resolve.
func (e *streamEnd) answer() {
	switch {
	case e.dead:
	case !e.other.alive:
		e.w.After(10*time.Millisecond, e.answer)
	default:
		e.step(Event{Kind: Resolved, Epoch: e.other.epoch, Tuple: e.other.tuple(), Fresh: true})
	}
}

// rest passes the event Rest, as an owner with too many connections does.
func (e *streamEnd) rest() { e.step(Event{Kind: Rest}) }

// busy reports whether the sender is writing, or has queued messages and does not poll.
func (e *streamEnd) busy() bool { return e.writing || len(e.outbox) > 0 && !e.w.polls }

// send queues a message of size bytes for the sender.
func (e *streamEnd) send(size int) {
	if e.dead || e.over {
		return
	}
	e.outbox = append(e.outbox, size)
	e.notify()
}

// notify wakes the sender after a short random time.
func (e *streamEnd) notify() {
	if !e.woken {
		e.woken = true
		e.w.After(e.w.UpTo(20*time.Microsecond), func() {
			e.woken = false
			e.pump()
		})
	}
}

// pump sends the queued messages in order, until one has to wait.
func (e *streamEnd) pump() {
	w := e.w
	for len(e.outbox) > 0 && !e.writing && !e.dead && !e.over {
		size := e.outbox[0]
		full := e.peer.Room() < size
		verdict := e.peer.Route(size, w.Now)
		e.outbox = e.outbox[1:] // before Step, whose effects may queue more messages
		if verdict == AfterUpgraded {
			e.writing = true
			e.step(Event{Kind: Upgrade})
			e.writing = false
			verdict = e.peer.Route(size, w.Now)
		}
		e.wasFull = e.wasFull || full && e.connected && e.peer.claimed()
		full = e.peer.Room() < size // the event Upgrade may have staged a control message
		switch {
		case verdict == ByStream:
			e.byStream()
			continue
		case verdict == ByDatagram && !full:
			if size > LongMessage || e.wasFull && e.peer.at[stream] == open {
				w.Broken("%d sends %d bytes to %d as a datagram", e.self.id, size, e.other.id)
			}
			e.byDatagram(size)
			continue
		case verdict == ByDatagram && e.peer.Unacked() == 0:
			if e.peer.at[stream] != barred {
				w.Broken("%d cannot send %d bytes to %d in %v", e.self.id, size, e.other.id, e.peer.at)
			}
			continue // package lazy returns an error to the program: no stream could be opened
		}
		e.outbox = append([]int{size}, e.outbox...)
		if w.polls {
			w.After(w.delay+time.Millisecond, e.notify)
		}
		return
	}
}

// next returns the number of the next message, and records that it is sent.
func (e *streamEnd) next() int {
	e.flow.sent++
	e.flow.got = append(e.flow.got, false)
	return e.flow.sent - 1
}

func (e *streamEnd) byDatagram(size int) {
	seq := e.next()
	e.step(Event{Kind: Send, Msg: e.body(seq, size)})
}

// body returns the body of a message that is sent as a datagram.
func (e *streamEnd) body(seq, size int) []byte {
	m := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, e.self.epoch), uint32(seq))
	return append(m, make([]byte, size)...)[:max(size, len(m))]
}

func (e *streamEnd) byStream() {
	seq := e.next()
	e.writing = true
	s := e.pipe
	own, _ := s.of(e)
	own.kept = append(own.kept, seq) // retain the message before it is written
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

// delivered records that a message has arrived. It checks that the message was sent, arrives once, and is in order.
func (e *streamEnd) delivered(epoch uint16, seq int, by string) {
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

// newest returns the last epoch of the peer from which this epoch has received a message, or 0.
func (e *streamEnd) newest() (epoch uint16) {
	for i, f := range e.other.ends[e.self.id].flows {
		if f.last >= 0 {
			epoch = uint16(i + 1)
		}
	}
	return epoch
}
