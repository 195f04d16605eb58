package peer

import "time"

const (
	firstCwnd = 32                    // initial congestion window in segments
	leastCwnd = 2                     // congestion window in segments after a time-out
	lossCwnd  = lossAfter + 1         // minimum window after a loss: a smaller one detects a loss only by the timer
	firstRTO  = 20 * time.Millisecond // initial time-out, until a round trip has been measured
	leastRTO  = 4 * time.Millisecond  // minimum of 4*rttvar in the time-out; longer than longAckDelay
	lossAfter = 3                     // a segment counts as lost if this many that were sent later have arrived
)

// sent is a segment that has been sent and is not acknowledged in order. Its payload is a part of a message.
type sent struct {
	payload []byte
	cost    int // bytes by which the message counts toward Config.Stage; 0 except in its last segment
	flags   uint8
	sacked  bool // the peer has received the segment, but not all segments before it
	lost    bool // the segment is believed to be lost and is to be resent
	sending
}

// sending describes the last transmission of a segment.
type sending struct {
	at      time.Duration // time of the transmission, on the clock of Step
	order   uint64        // number of the transmission, from 1 in each window
	since   time.Duration // value of rate.at at the time of the transmission
	arrived uint32        // value of rate.arrived at the time of the transmission
	resent  bool          // the segment was sent before, so an acknowledgement measures no round trip
}

// window is the state of both directions of a connection. It exists in Up and Closing.
type window struct {
	// The state of sending. Segment numbers are compared by their difference, so they may wrap.
	una, next, limit uint32            // segments: oldest unacknowledged; next new; first beyond the peer's window
	sackedN, lostN   int               // number of segments from una to next that are sacked, and that are lost
	cwnd, thresh     int               // congestion window and slow start threshold, in segments
	credit           int               // segments acknowledged since cwnd last grew, if cwnd is above thresh
	order, cutAt     uint64            // number of transmissions so far; its value when cwnd was last reduced
	tops             [lossAfter]uint64 // highest values of sending.order of arrived segments, descending
	rate             rate
	srtt, rttvar     time.Duration // smoothed round trip time and its variation (RFC 6298)
	rto              time.Duration // time-out without the delays that Peer.rto adds
	out              []sent        // segments una to next, by number modulo length; the length is 0 or a power of two

	// The state of receiving.
	want    uint32        // number of the next segment in order
	have    uint64        // bit i is set if segment want+1+i is in the field in
	owed    int           // segments received in order since the last acknowledgement was sent
	most    int           // value of owed at which an ACK is sent at once
	ackAt   time.Duration // time at which a delayed acknowledgement is due, or never
	ackWait time.Duration // delay of an acknowledgement unless hold.long is longer
	ackNow  bool          // an acknowledgement is due in this Step
	hold    hold
	shut    bool         // this rank advertises a receive window of 0
	open    bool         // partial holds the beginning of a message
	partial []byte       // bytes received in order of the current message
	in      *[ring]piece // segments after want, by number modulo ring; nil if have is 0
}

// piece is a received segment that waits for an earlier one.
type piece struct {
	payload []byte
	flags   uint8
}

func newWindow(room uint8) *window {
	return &window{limit: uint32(room), cwnd: firstCwnd, thresh: ring, rto: firstRTO, ackAt: never, ackWait: ackDelay,
		most: fewOwed, hold: hold{since: never}}
}

// under returns the number of segments that were sent and are not acknowledged in order.
func (w *window) under() int { return int(w.next - w.una) }

// pipe returns the number of segments that are believed to be in the network.
func (w *window) pipe() int { return w.under() - w.sackedN - w.lostN }

// takes reports whether a new segment may be sent: out, the receive window and the congestion window have room.
func (w *window) takes() bool {
	return w.under() < ring && int32(w.limit-w.next) > 0 && w.pipe() < w.cwnd
}

// slot returns the entry of out for the segment with the number seq, from una to next.
func (w *window) slot(seq uint32) *sent { return &w.out[seq%uint32(len(w.out))] }

// fewSlots is the initial length of window.out. A longer slice is released when all segments are acknowledged.
const fewSlots = 4

// stretch makes room in out for one more segment.
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

// pump sends as many segments as the windows allow: first the lost ones, then new ones. It starts or stops the timer.
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
		p.acknowledge(flagAsk) // the peer may delay its acknowledgement for segments that cannot be sent now
	}
	switch waiting := w.under() > 0 || p.queue.len() > 0; {
	case !waiting:
		p.retry.stop()
	case p.retry.at == never:
		p.retry.begin(p.now, p.rto())
	}
}

// post transmits a segment, with an acknowledgement for the peer.
func (p *Peer) post(seq uint32, s *sent) {
	w := p.win
	w.order++
	if w.pipe() <= 1 { // no other segment is in the network
		w.rate.at = p.now
	}
	s.at, s.order = p.now, w.order
	s.since, s.arrived = w.rate.at, w.rate.arrived
	w.hold.leaves(p.now)
	k := packet{kind: PacketSegment, seq: seq, flags: s.flags, payload: s.payload}
	p.acknowledged(&k)
	p.transmit(&k)
}

// acknowledge sends an ACK, which has no data.
func (p *Peer) acknowledge(flags uint8) {
	k := packet{kind: PacketAck, flags: flags}
	p.acknowledged(&k)
	p.transmit(&k)
}

// acknowledged fills in the acknowledgement and the receive window of a packet, and records them as sent. The caller
// transmits the packet.
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

// takeAck handles the acknowledgement in a SEGMENT or an ACK of the peer. It ignores an acknowledgement that is older
// than the last one. It never lowers w.limit, so packets with the same acknowledgement may arrive in any order.
func (p *Peer) takeAck(k *packet) {
	w := p.win
	if k.ack-w.una > w.next-w.una {
		return
	}
	p.retry.silent = 0
	if k.window == 0 { // the receive window of the peer is shut, but the peer still answers
		p.retry.since, p.retry.proofs = p.now, 0
	}
	before := p.pending
	got := 0
	var newest sending // latest transmission among the newly acknowledged segments
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
		// Only the segment that was sent last measures a round trip. If acknowledgements were lost, the others
		// may have arrived long ago.
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
	case longer > 0: // the peer may delay the acknowledgement of a segment that has arrived by that much
		p.retry.at += longer
	}
	if w.under() == 0 && len(w.out) > fewSlots {
		w.out = nil
	}
	if before > 0 && p.pending == 0 {
		p.emit(Effect{Kind: Drained})
	}
}

// arrived records that the peer has acknowledged a segment for the first time.
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

// rto returns the time after which an unacknowledged segment counts as lost: the time-out of the window, but at least
// twice the time in which peers answer (pace), plus the time that the peer delays acknowledgements.
func (p *Peer) rto() time.Duration { return p.scratch.pace.first(p.win.rto) + p.win.hold.peers }

// measure updates the time-out with a round trip (RFC 6298). leastRTO leaves time for a delay of the acknowledgement
// that the measured round trips may not contain.
func (w *window) measure(r time.Duration) {
	if w.srtt == 0 {
		w.srtt, w.rttvar = r, r/2
	} else {
		w.rttvar += (max(w.srtt-r, r-w.srtt) - w.rttvar) / 4
		w.srtt += (r - w.srtt) / 8
	}
	w.rto = min(w.srtt+max(4*w.rttvar, leastRTO), lastRetry)
}

// grow raises the congestion window after got segments have been acknowledged (RFC 5681).
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

// findLost marks each segment as lost that was sent before lossAfter others that have arrived. It reduces the
// congestion window only once for all segments that were in flight at the last reduction.
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

// fallen returns the congestion window after a loss: the measured bandwidth-delay product (as in TCP Westwood), but at
// most the current window, and at least half of it and lossCwnd. So random losses do not lower the rate, and a full
// queue in the network can drain.
func (w *window) fallen() int {
	return max(min(w.cwnd, w.rate.product()), w.cwnd/2, lossCwnd)
}

// timedOut marks all segments in flight as lost. Then pump resends the oldest ones, and the others as acknowledgements
// arrive.
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
