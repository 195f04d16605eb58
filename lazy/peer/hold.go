package peer

import "time"

// hold decides how long acknowledgements wait for a segment of this rank to carry them, if they wait longer than
// longAckDelay. That is useful if ranks share processors and all of them exchange messages in each step of the program,
// because a step then takes longer than longAckDelay. An acknowledgement without data costs as much as a message and
// wakes a rank that has nothing to do then.
//
// Each SEGMENT and ACK tells the peer the delay, and the peer waits that much longer before it resends a segment. So
// recovery from a loss takes longer, and no acknowledgement waits longer than holdTrips round trips. Times are on the
// clock of Step.
type hold struct {
	came  time.Duration // time when the last segment of the peer arrived
	since time.Duration // arrival of the first segment in order after this rank last sent a segment, or never
	gap   time.Duration // recent maximum of the time from since to this rank's next segment; 0 after an ACK by timer
	long  time.Duration // maximum delay of acknowledgements; 0 means longAckDelay
	peers time.Duration // maximum delay of the peer's acknowledgements, as the last one announced
	quick time.Duration // smoothed round trip time, without the time that acknowledgements waited
}

const (
	// mostHold is the maximum of hold.long. It limits the delay after a loss and fits into the field of a packet.
	mostHold = time.Second
	holdUnit = 4 * time.Millisecond       // unit of packet.hold
	holdMost = uint8(mostHold / holdUnit) // maximum of packet.hold
	// heldUnit is the unit of packet.held.
	heldUnit = 16 * time.Microsecond
	// holdTrips is the maximum number of round trips that an acknowledgement may wait. If ranks share processors,
	// they read their packets late, so that a round trip takes a large part of a step. On an idle network, 16 round
	// trips are shorter than longAckDelay, so acknowledgements wait no longer than that.
	holdTrips = 16
)

// arrived records that a segment of the peer has arrived. next is set if it is the next one in order.
func (h *hold) arrived(now time.Duration, next bool) {
	h.came = now
	if next && h.since == never {
		h.since = now
	}
}

// leaves records that this rank sends a segment, which carries the acknowledgement.
func (h *hold) leaves(now time.Duration) {
	if h.since == never {
		return
	}
	gap := now - h.since
	h.gap = max(gap, h.gap-(h.gap-gap)/8)
	h.since = never
}

// choose sets h.long, the time that acknowledgements wait from now on. The caller announces the time to the peer in the
// packet that it builds.
func (h *hold) choose() {
	h.long = 0
	long := min(h.gap+h.gap/2+holdUnit-1, mostHold)
	if h.gap > longAckDelay*2/3 && h.gap < long && h.gap <= holdTrips*h.quick {
		h.long = long / holdUnit * holdUnit
	}
}

// held returns the time since the last segment of the peer arrived, in heldUnit, limited to the range of packet.held.
func (h *hold) held(now time.Duration) uint16 {
	return uint16(min((now-h.came)/heldUnit, 1<<16-1))
}

// trip returns a round trip time without the delay of the acknowledgement. took is the measured time, and held is the
// delay in heldUnit. trip subtracts at most h.peers, the maximum delay that the peer has announced. It also updates
// h.quick.
func (h *hold) trip(took time.Duration, held uint16) time.Duration {
	waited := time.Duration(held) * heldUnit
	answer := max(took-waited, 1)
	if h.quick == 0 {
		h.quick = answer
	}
	h.quick += (answer - h.quick) / 8
	return max(took-min(waited, h.peers), heldUnit)
}
