package peer

import "time"

// hold is how long acknowledgements wait for a message of ours to carry them, if that takes longer
// than longAckDelay to come. Where ranks share processors, a step in which all exchange messages
// does. An acknowledgement alone costs as much as a message, and wakes a rank that has nothing to
// do then.
//
// The peer is told how long, and waits so much longer before it repeats a segment. So a lost one
// costs more time, and nothing is held for longer than holdTrips round trips.
type hold struct {
	came  time.Duration // the last segment of the peer
	since time.Duration // the first one since the last of ours; never: none
	gap   time.Duration // from since to the next segment of ours, of late; 0: none came in time
	long  time.Duration // how long, as the peer was told; 0: longAckDelay at most
	peers time.Duration // the same of the peer
	quick time.Duration // a round trip without all time that an acknowledgement was held; smoothed
}

const (
	// mostHold bounds what a lost segment costs, and fits into the field of a packet.
	mostHold = time.Second
	holdUnit = 4 * time.Millisecond
	holdMost = uint8(mostHold / holdUnit)
	// heldUnit is that of the time that an acknowledgement was held, which is taken off a round
	// trip.
	heldUnit = 16 * time.Microsecond
	// holdTrips is how many round trips an acknowledgement may be held. Among ranks that share
	// processors a round trip takes a part of a step, since they read late. On a quiet network 16
	// round trips are less than longAckDelay, and nothing changes.
	holdTrips = 16
)

// arrived notes a segment of the peer; next: the next in order.
func (h *hold) arrived(now time.Duration, next bool) {
	h.came = now
	if next && h.since == never {
		h.since = now
	}
}

// leaves notes a segment of ours, which carries the acknowledgement.
func (h *hold) leaves(now time.Duration) {
	if h.since == never {
		return
	}
	gap := now - h.since
	h.gap = max(gap, h.gap-(h.gap-gap)/8)
	h.since = never
}

// choose says how long acknowledgements are held from now on. The packet at hand tells the peer.
func (h *hold) choose() {
	h.long = 0
	long := min(h.gap+h.gap/2+holdUnit-1, mostHold)
	if h.gap > longAckDelay*2/3 && h.gap < long && h.gap <= holdTrips*h.quick {
		h.long = long / holdUnit * holdUnit
	}
}

// held is for how long the last segment has not been acknowledged, in heldUnit.
func (h *hold) held(now time.Duration) uint16 {
	return uint16(min((now-h.came)/heldUnit, 1<<16-1))
}

// trip is what is left of a round trip without the time that the peer has held its acknowledgement
// on purpose. If that was late itself, answers take so long.
func (h *hold) trip(took time.Duration, held uint16) time.Duration {
	waited := time.Duration(held) * heldUnit
	answer := max(took-waited, 1)
	if h.quick == 0 {
		h.quick = answer
	}
	h.quick += (answer - h.quick) / 8
	return max(took-min(waited, h.peers), heldUnit)
}
