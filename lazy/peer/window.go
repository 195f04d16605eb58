package peer

import "time"

const (
	firstCwnd = 32
	leastCwnd = 2
	lossCwnd  = lossAfter + 1         // below it, a loss is found by its timer only
	firstRTO  = 20 * time.Millisecond // until a round trip has been measured
	leastRTO  = 4 * time.Millisecond  // above the delay of an acknowledgement
	lossAfter = 3                     // segments sent later and received before one counts as lost
)

// sent is one segment under way. Its payload is a piece of a message that the
// queue has given up.
type sent struct {
	payload []byte
	cost    int // of Stage, freed with the last segment of a message
	flags   uint8
	sacked  bool
	lost    bool
	sending
}

// sending is the last transmission of a segment.
type sending struct {
	at      time.Duration
	order   uint64        // of transmissions
	since   time.Duration // rate.at then
	arrived uint32        // rate.arrived then
	resent  bool          // its acknowledgement measures nothing
}

// window is both directions of a connection. It exists in Up and Closing.
type window struct {
	// Sending. Numbers are compared by their difference, so they may wrap.
	una, next, limit uint32 // oldest unacknowledged; next new one; first that the peer has no room for
	sackedN, lostN   int    // of those under way
	cwnd, thresh     int    // segments under way; slow start below thresh
	credit           int    // acknowledged since cwnd grew
	order, cutAt     uint64 // transmissions; the first since cwnd was cut
	tops             [lossAfter]uint64
	rate             rate
	srtt, rttvar     time.Duration // RFC 6298
	rto              time.Duration
	out              []sent // a power of two of them, and no more than are needed: most pairs are at rest

	// Receiving.
	want    uint32 // next in order
	have    uint64 // bit i: want+1+i is in the ring
	owed    int    // segments not acknowledged
	most    int    // of those, before an ACK goes out at once
	ackAt   time.Duration
	ackWait time.Duration // from the first of them to ackAt
	ackNow  bool
	hold    hold
	shut    bool // our last word was a window of 0
	open    bool // partial is the beginning of a message
	partial []byte
	in      *[ring]piece // nil: have is 0
}

// piece is a segment that waits for one before it.
type piece struct {
	payload []byte
	flags   uint8
}

func newWindow(room uint8) *window {
	return &window{limit: uint32(room), cwnd: firstCwnd, thresh: ring, rto: firstRTO, ackAt: never, ackWait: ackDelay,
		most: fewOwed, hold: hold{since: never}}
}

// under is how many numbers are given and not acknowledged in order.
func (w *window) under() int { return int(w.next - w.una) }

// pipe is how many segments are believed to be in the network.
func (w *window) pipe() int { return w.under() - w.sackedN - w.lostN }

// takes reports whether one more new segment may go: the ring, the peer and the network have room.
func (w *window) takes() bool {
	return w.under() < ring && int32(w.limit-w.next) > 0 && w.pipe() < w.cwnd
}

func (w *window) slot(seq uint32) *sent { return &w.out[seq%uint32(len(w.out))] }

// fewSlots is what a window has at rest, if it has any.
const fewSlots = 4

// stretch makes room for one more segment under way.
func (w *window) stretch() {
	if w.under() < len(w.out) {
		return
	}
	bigger := make([]sent, max(fewSlots, 2*len(w.out)))
	for seq := w.una; seq != w.next; seq++ {
		bigger[seq%uint32(len(bigger))] = *w.slot(seq)
	}
	w.out = bigger
}

// pump sends what may be sent: first what was lost, then what is new.
func (p *Peer) pump() {
	w := p.win
	before := w.order
	for seq := w.una; w.lostN > 0 && w.pipe() < w.cwnd; seq++ {
		if s := w.slot(seq); s.lost {
			s.lost, s.resent = false, true
			w.lostN--
			p.counts.Resent++
			p.post(seq, s)
		}
	}
	for p.queue.len() > 0 && w.takes() {
		w.stretch()
		s := w.slot(w.next)
		*s = sent{}
		var whole int
		s.payload, s.flags, whole = p.queue.cutOff(p.mtu - segmentLen)
		if s.flags&flagLast != 0 {
			s.cost = whole + messageCost
			p.fin.sent++
		}
		w.next++
		p.post(w.next-1, s)
	}
	if left := w.lostN + p.queue.len(); left > 0 && w.order != before && w.pipe() < manyOwed && w.hold.peers > 0 {
		p.acknowledge(flagAsk) // the peer may wait for more segments than may go
	}
	switch waiting := w.under() > 0 || p.queue.len() > 0; {
	case !waiting:
		p.retry.stop()
	case p.retry.at == never:
		p.retry.begin(p.now, p.rto())
	}
}

// post transmits one segment, with our acknowledgement on its back.
func (p *Peer) post(seq uint32, s *sent) {
	w := p.win
	w.order++
	if w.pipe() <= 1 { // this one
		w.rate.at = p.now
	}
	s.at, s.order = p.now, w.order
	s.since, s.arrived = w.rate.at, w.rate.arrived
	w.hold.leaves(p.now)
	k := packet{kind: PacketSegment, seq: seq, flags: s.flags, payload: s.payload}
	p.acknowledged(&k)
	p.transmit(&k)
}

// acknowledge sends an ACK alone.
func (p *Peer) acknowledge(flags uint8) {
	k := packet{kind: PacketAck, flags: flags}
	p.acknowledged(&k)
	p.transmit(&k)
}

// acknowledged fills in what we have received, and that we have said so.
func (p *Peer) acknowledged(k *packet) {
	w := p.win
	if p.untaken > p.cfg.Inbox {
		w.shut = true
	}
	if !w.shut {
		k.window = uint8(p.cfg.Window)
	}
	w.hold.choose()
	k.ack, k.sack = w.want, w.have
	k.held, k.hold = w.hold.held(p.now), uint8(w.hold.long/holdUnit)
	w.owed, w.ackAt, w.ackNow = 0, never, false
}

// takeAck takes the peer's acknowledgement. An older one than the last says
// nothing; the limit never goes back, so neither the order of two with the
// same number nor a peer that shuts its window matters.
func (p *Peer) takeAck(k *packet) {
	w := p.win
	if k.ack-w.una > w.next-w.una {
		return
	}
	p.retry.silent = 0
	if k.window == 0 { // the window of the peer is full, but the peer still answers
		p.retry.since, p.retry.proofs = p.now, 0
	}
	before := p.pending
	got := 0
	var newest sending // of those that this reports: it brought the acknowledgement about
	arrived := func(s *sent) {
		got++
		w.arrived(s, p.now)
		if s.order > newest.order {
			newest = s.sending
		}
	}
	for ; w.una != k.ack; w.una++ {
		s := w.slot(w.una)
		if s.sacked {
			w.sackedN--
		} else {
			arrived(s)
		}
		if s.flags&flagLast != 0 {
			p.unackedBytes -= s.cost
			p.pending--
		}
		*s = sent{}
	}
	for bits, seq := k.sack, k.ack+1; bits != 0 && int32(w.next-seq) > 0; bits, seq = bits>>1, seq+1 {
		if s := w.slot(seq); bits&1 != 0 && !s.sacked {
			arrived(s)
			s.sacked = true
			w.sackedN++
		}
	}
	if got > 0 {
		// The others may have been there long, if acknowledgements were lost.
		if !newest.resent {
			trip := w.hold.trip(p.now-newest.at, k.held)
			w.measure(trip)
			w.rate.sample(p.now, w.srtt, &newest)
			p.scratch.pace.learn(trip)
		}
		w.grow(got)
		w.findLost()
	}
	longer := time.Duration(k.hold)*holdUnit - w.hold.peers
	w.hold.peers += longer
	if limit := k.ack + uint32(k.window); int32(limit-w.limit) > 0 {
		w.limit = limit
		got++
	}
	switch {
	case p.retry.at == never || p.state != Up:
	case got > 0:
		p.retry.begin(p.now, p.rto())
	case longer > 0: // a segment that is there already may be held so long
		p.retry.at += longer
	}
	if w.under() == 0 && len(w.out) > fewSlots {
		w.out = nil
	}
	if before > 0 && p.pending == 0 {
		p.emit(Effect{Kind: Drained})
	}
}

// arrived records that a segment has reached the peer.
func (w *window) arrived(s *sent, now time.Duration) {
	if s.lost {
		s.lost = false
		w.lostN--
	}
	w.rate.arrived++
	w.rate.at = now
	order := s.order
	for i, top := range w.tops {
		if order > top {
			w.tops[i], order = order, top
		}
	}
}

// rto is how long a segment waits for its acknowledgement: as this pair's own round trips say, and
// what the peer holds it, but no shorter than answers take elsewhere.
func (p *Peer) rto() time.Duration { return p.scratch.pace.first(p.win.rto) + p.win.hold.peers }

// measure takes a round trip into the time-out, RFC 6298. Those before may have had no delay of an
// acknowledgement in them.
func (w *window) measure(r time.Duration) {
	if w.srtt == 0 {
		w.srtt, w.rttvar = r, r/2
	} else {
		w.rttvar += (max(w.srtt-r, r-w.srtt) - w.rttvar) / 4
		w.srtt += (r - w.srtt) / 8
	}
	w.rto = min(w.srtt+max(4*w.rttvar, leastRTO), lastRetry)
}

func (w *window) grow(got int) {
	if w.cwnd < w.thresh {
		w.cwnd = min(w.cwnd+got, ring)
		return
	}
	w.credit += got
	if w.credit >= w.cwnd {
		w.credit = 0
		w.cwnd = min(w.cwnd+1, ring)
	}
}

// findLost marks what was sent before three others that have arrived. The window falls once for all
// that were under way at that time.
func (w *window) findLost() {
	if w.sackedN == 0 {
		return
	}
	for seq := w.una; seq != w.next; seq++ {
		s := w.slot(seq)
		if s.sacked || s.lost || s.order >= w.tops[lossAfter-1] {
			continue
		}
		s.lost = true
		w.lostN++
		if s.order > w.cutAt {
			w.cwnd = w.fallen()
			w.thresh, w.credit, w.cutAt = w.cwnd, 0, w.order
		}
	}
}

// fallen is the window after a loss: what the way is measured to carry without a queue (TCP
// Westwood), and half of it if that is more. A way that loses some of everything keeps its rate,
// and one whose queue was full gets the time to empty it.
func (w *window) fallen() int {
	return max(min(w.cwnd, w.rate.product()), w.cwnd/2, lossCwnd)
}

// timedOut takes everything under way for lost: pump sends the oldest again
// and the rest as acknowledgements come back.
func (w *window) timedOut() {
	for seq := w.una; seq != w.next; seq++ {
		if s := w.slot(seq); !s.sacked && !s.lost {
			s.lost = true
			w.lostN++
		}
	}
	w.thresh = w.fallen()
	w.cwnd, w.credit, w.cutAt = leastCwnd, 0, w.order
}
