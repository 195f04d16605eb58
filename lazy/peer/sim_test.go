package peer

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"sort"
	"time"

	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/test/seeded"
)

// chances is what one schedule does to its packets, answers and ranks.
type chances struct {
	ranks        int
	loss, dup    float64
	again        float64       // a copy comes again after up to half a second
	delay, sway  time.Duration // one way, and at most that much more
	answer       time.Duration // of the agent, at most
	wrong        float64       // answers that a living rank is gone, or too old ones
	stale        float64       // answers from a cache that name an old epoch
	slow         time.Duration // to take a message, at most
	active       time.Duration // then all goes well
	sends, rests int
	size         int // of messages, bytes
	restarts     int
	exits        int
	kept         float64       // FINs that come to a connection on which something was made
	splits       int           // partitions
	split        time.Duration // how long, at most
	freezes      int           // ranks that stand still
	freeze       time.Duration // how long, at most
	work         time.Duration // all ranks share one core, which a packet takes so long
	room         int           // packets that wait for a rank before more are lost
	link         *link         // nil: packets take no room
	cfg          Config
	trace        func(format string, args ...any)
}

// world is ranks, a network and an agent under virtual time.
type world struct {
	chances
	seeded.Time
	ranks   []*rank
	cut     map[[2]int]time.Duration // no packets from, to, until
	used    seeded.Counts
	took    []time.Duration // from Send to Deliver
	posts   [packetKinds]int
	running bool // somebody has the core
	next    int  // rank that had it last
	posted  int  // packets that this turn has handled
	timers  int  // SetTimer effects
}

// rank is one epoch after the other of one rank.
type rank struct {
	id     int
	epoch  uint16
	epochs []uint16 // all, in their order
	alive  bool
	exited bool
	thaw   time.Duration // it stands still until then
	tuple  fabric.Tuple
	tuples []fabric.Tuple // by place in epochs
	ends   []*end         // by the other's id
	from   []uint16       // by source: the newest epoch that something was delivered of
	todo   []func()       // what waits for the core
	behind int            // packets among it
}

// end is a Peer and the state of its simulated owner.
type end struct {
	w       *world
	self    *rank
	other   *rank
	peer    *Peer
	flow    *flow
	flows   []*flow // flows of all epochs of self to other
	waiting []int   // indices in flow.sent of messages neither acknowledged nor lost
	timer   uint64  // serial number of the current timer; earlier ones are ignored
	dead    bool
	idle    bool // the application receives no messages
	keep    bool // the owner has made an offer on the connection, so a FIN is refused

	controls []placed // control messages received in the current step
	opened   int
	closed   int
	causes   []Cause
	floor    uint16 // lowest valid epoch of the other rank, as the agent has said
	renewed  uint16 // epoch in the last Renewed

	whenOpened func() // called once; may be nil
}

// placed is a control message that was received before the effect with index at.
type placed struct {
	at  int
	msg []byte
}

// flow contains the messages that one epoch of a rank has sent to another rank.
type flow struct {
	epoch uint16
	sent  []fate
	last  int // index in sent of the last delivered message, or -1
}

type fate struct {
	at                     time.Duration
	to                     uint16 // epoch of the receiver, or 0 if the sender does not know it
	control                bool
	delivered, lost, acked bool
}

func newWorld(seed uint64, k chances) *world {
	w := &world{chances: k, used: seeded.Counts{}, Time: seeded.NewTime(seed, 7, k.trace), cut: map[[2]int]time.Duration{}}
	for id := range k.ranks {
		w.ranks = append(w.ranks, &rank{id: id, ends: make([]*end, k.ranks), from: make([]uint16, k.ranks)})
	}
	w.chances.ranks = k.ranks
	for _, r := range w.ranks {
		w.start(r, false)
	}
	return w
}

// when runs do, as soon as the rank does not stand still.
func (w *world) when(r *rank, do func()) {
	if r.thaw > w.Now {
		w.At(r.thaw, do)
		return
	}
	do()
}

// run goes on until nothing is left to happen.
func (w *world) run() error { return w.Run(w.active + 10*time.Minute) }

func (w *world) clear() bool { return w.Now >= w.active }

// step is the owner of a Peer.
func (e *end) step(ev Event) {
	w := e.w
	if e.dead || w.Fault != nil {
		return
	}
	e.controls = nil
	for i, f := range e.peer.Step(w.Now, ev) {
		e.takeControls(i)
		e.perform(&f)
	}
	e.takeControls(math.MaxInt)
	if err := e.peer.Check(); err != nil {
		w.Broken("%d->%d: %v", e.self.id, e.other.id, err)
	}
	for len(e.waiting) > e.peer.Unacked() {
		m := &e.flow.sent[e.waiting[0]]
		if !m.delivered {
			w.Broken("%d->%d: message %d is acknowledged and was not delivered", e.self.id, e.other.id, e.waiting[0])
		}
		m.acked = true
		e.waiting = e.waiting[1:]
	}
	if len(e.waiting) != e.peer.Unacked() {
		w.Broken("%d->%d: %d messages wait, the Peer says %d", e.self.id, e.other.id, len(e.waiting), e.peer.Unacked())
	}
}

// takeControls processes the control messages that were received before the effect with index before.
func (e *end) takeControls(before int) {
	for len(e.controls) > 0 && e.controls[0].at <= before {
		m := e.controls[0].msg
		e.controls = e.controls[1:]
		e.w.delivered(e, m, true)
	}
}

func (e *end) perform(f *Effect) {
	w := e.w
	switch f.Kind {
	case Transmit:
		w.post(e, f)
	case Resolve:
		w.Log("%d asks for %d, least %d fresh %v", e.self.id, e.other.id, f.Least, f.Fresh)
		least, fresh := f.Least, f.Fresh
		w.At(w.Now+w.UpTo(w.answer), func() { w.resolve(e, least, fresh) })
	case SetTimer:
		w.timers++
		e.timer++
		mine := e.timer
		tick := func() {
			if mine == e.timer {
				w.when(e.self, func() { e.step(Event{Kind: Tick}) })
			}
		}
		if w.work > 0 {
			ring := tick
			tick = func() { w.queue(e.self, false, ring) }
		}
		w.At(max(f.At, w.Now), tick)
	case Deliver:
		w.delivered(e, f.Msg, false)
	case Opened:
		e.opened++
		if do := e.whenOpened; do != nil {
			e.whenOpened = nil
			do()
		}
		w.Log("%d up to %d, generation %d", e.self.id, e.other.id, e.peer.gen)
	case Closed:
		e.closed++
		w.Log("%d closed to %d", e.self.id, e.other.id)
	case Renewed:
		w.Log("%d renewed to %d, epoch %d", e.self.id, e.other.id, f.Least)
		if f.Least <= e.renewed || f.Least != e.peer.epoch {
			w.Broken("%d renewed to %d: epoch %d after %d, the Peer says %d", e.self.id, e.other.id, f.Least, e.renewed,
				e.peer.epoch)
		}
		e.renewed = f.Least
	case Failed:
		w.Log("%d failed to %d: %v, %d lost", e.self.id, e.other.id, f.Cause, f.Lost)
		e.causes = append(e.causes, f.Cause)
		if f.Lost > len(e.waiting) {
			w.Broken("%d of %d messages lost", f.Lost, len(e.waiting))
			return
		}
		for _, m := range e.waiting[:f.Lost] {
			e.flow.sent[m].lost = true
		}
		e.waiting = e.waiting[f.Lost:]
	}
}

const headLen = 20 // of a message of the simulator

// send lets the application send one message.
func (e *end) send(size int, control bool) {
	if e.dead || !control && max(size, headLen) > e.peer.Room() {
		return
	}
	seq := len(e.flow.sent)
	b := make([]byte, max(size, headLen))
	binary.BigEndian.PutUint32(b, uint32(e.self.id))
	binary.BigEndian.PutUint32(b[4:], uint32(e.other.id))
	binary.BigEndian.PutUint16(b[8:], e.self.epoch)
	binary.BigEndian.PutUint32(b[12:], uint32(seq))
	binary.BigEndian.PutUint32(b[16:], uint32(len(b)))
	for i := headLen; i < len(b); i++ {
		b[i] = byte(seq + i)
	}
	e.flow.sent = append(e.flow.sent, fate{at: e.w.Now, control: control, to: e.peer.epoch})
	e.waiting = append(e.waiting, seq)
	e.w.Log("%d sends %d to %d", e.self.id, seq, e.other.id)
	if control {
		e.peer.send(message{body: b, kind: flagControl})
		e.step(Event{Kind: Taken})
		return
	}
	e.step(Event{Kind: Send, Msg: b})
}

// delivered checks that a message was sent, has not come before, and is in order.
func (w *world) delivered(e *end, b []byte, control bool) {
	if len(b) < headLen || int(binary.BigEndian.Uint32(b[16:])) != len(b) {
		w.Broken("a message of %d bytes", len(b))
		return
	}
	src, dst := int(binary.BigEndian.Uint32(b)), int(binary.BigEndian.Uint32(b[4:]))
	epoch, seq := binary.BigEndian.Uint16(b[8:]), int(binary.BigEndian.Uint32(b[12:]))
	w.Log("%d takes %d of %d epoch %d", e.self.id, seq, src, epoch)
	for i := headLen; i < len(b); i++ {
		if b[i] != byte(seq+i) {
			w.Broken("message %d->%d %d is not what was sent", src, dst, seq)
			return
		}
	}
	if src != e.other.id || dst != e.self.id {
		w.Broken("message %d->%d came to %d from %d", src, dst, e.self.id, e.other.id)
		return
	}
	if epoch < e.self.from[src] || epoch != e.peer.epoch {
		w.Broken("message of epoch %d of %d after one of %d", epoch, src, e.self.from[src])
	}
	if epoch < e.floor {
		w.Broken("message of epoch %d of %d, which counts from %d on", epoch, src, e.floor)
	}
	e.self.from[src] = epoch
	l := e.other.ends[dst].flows[slices.Index(e.other.epochs, epoch)]
	if seq <= l.last {
		w.Broken("message %d->%d %d after %d", src, dst, seq, l.last)
	}
	l.last = seq
	m := &l.sent[seq]
	if m.to != 0 && job.StartOf(m.to) != job.StartOf(e.self.epoch) {
		w.Broken("message %d->%d %d to epoch %d came to epoch %d", src, dst, seq, m.to, e.self.epoch)
	}
	if m.delivered || m.control != control {
		w.Broken("message %d->%d %d twice, or as what it is not", src, dst, seq)
	}
	m.delivered = true
	w.took = append(w.took, w.Now-m.at)
	if e.idle || control {
		return
	}
	n := len(b)
	w.At(w.Now+w.UpTo(w.slow), func() { e.step(Event{Kind: Taken, N: n}) })
}

// post is the network.
func (w *world) post(e *end, f *Effect) {
	w.posts[f.Packet]++
	ev := Event{
		Kind: Packet, Packet: f.Packet, Gen: f.Gen, SrcEpoch: e.self.epoch, DstEpoch: f.DstEpoch,
		Body: bytes.Clone(f.Body), Tuple: e.self.tuple,
	}
	if f.To.Num == 0 {
		w.Broken("%v to nowhere", f.Packet)
		return
	}
	if w.Trace != nil {
		var k packet
		k.parse(f.Packet, f.Body)
		w.Log("  %d>%d %v gen %d epochs %d>%d flags %d seq %d ack %d attempt %d", e.self.id, e.other.id, f.Packet,
			f.Gen,
			ev.SrcEpoch, ev.DstEpoch, k.flags, k.seq, k.ack, k.attempt)
	}
	to, src, dst := f.To, e.self, e.other
	arrive := func() {
		if !dst.alive || dst.tuple != to {
			return
		}
		o := dst.ends[src.id]
		if ev.Packet == PacketSegment && o.peer.state == Wait && ev.Gen == o.peer.gen && ev.SrcEpoch == o.peer.epoch &&
			ev.DstEpoch == dst.epoch {
			w.Broken("%d sends to %d before it may", src.id, dst.id)
		}
		keep := o.keep || !w.clear() && w.Chance(w.kept)
		w.when(dst, func() {
			if keep {
				o.peer.at[stream] = offered
			}
			o.step(ev)
			o.peer.at[stream] = noStream
		})
	}
	if w.work > 0 {
		w.posted++
		w.queue(dst, true, arrive)
		return
	}
	if w.clear() {
		w.At(w.Now+w.delay, arrive)
		return
	}
	if w.cut[[2]int{src.id, dst.id}] > w.Now {
		return
	}
	left := w.Now
	if w.link != nil {
		var ok bool
		if left, ok = w.link.leaves(src.id, w.Now); !ok {
			return
		}
	}
	if !w.Chance(w.loss) {
		w.At(left+w.delay+w.UpTo(w.sway), arrive)
	}
	if w.Chance(w.dup) {
		w.At(w.Now+w.delay+w.UpTo(w.sway), arrive)
	}
	if w.Chance(w.again) {
		w.At(w.Now+w.UpTo(500*time.Millisecond), arrive)
	}
}

// resolve is the agent: it parks, it caches, it honours the least epoch; what is to be fresh it
// asks the rank itself.
func (w *world) resolve(e *end, least uint16, fresh bool) {
	o := e.other
	switch {
	case e.dead:
	case e.self.thaw > w.Now:
		w.At(e.self.thaw, func() { w.resolve(e, least, fresh) })
	case o.exited:
		e.step(Event{Kind: Unresolved, Cause: Exited})
	case !w.clear() && w.Chance(w.wrong):
		e.step(Event{Kind: Unresolved, Cause: NoRank})
	case !o.alive && w.Rand.IntN(4) == 0:
		e.step(Event{Kind: Unresolved, Cause: Broken})
	case !o.alive:
		w.At(w.Now+10*time.Millisecond, func() { w.resolve(e, least, fresh) })
	case fresh && o.thaw > w.Now:
		w.At(o.thaw, func() { w.resolve(e, least, fresh) })
	default:
		at := len(o.epochs) - 1
		if !w.clear() && w.Chance(w.wrong) {
			at = w.Rand.IntN(at + 1) // whatever was asked
		} else if !fresh && w.Chance(w.stale) {
			if from := sort.Search(at, func(i int) bool { return o.epochs[i] >= least }); from < at {
				at = from + w.Rand.IntN(at-from+1)
			}
		}
		e.step(Event{Kind: Resolved, Epoch: o.epochs[at], Tuple: o.tuples[at], Fresh: fresh})
	}
}
