package peer

const (
	firstOpenings = 2  // initial limit of handshakes in progress
	mostOpenings  = 32 // maximum of the limit
)

// Openings limits the number of handshakes that a rank has in progress. Without a limit, a rank that connects to a
// thousand others at once would overload them and itself with resends. As in a congestion window (RFC 5681), a
// handshake without a resend raises the limit by one. A handshake with a resend halves it, but only once for all
// handshakes that began before. The zero value is ready for use.
type Openings struct {
	less  int    // firstOpenings minus the current limit; may be negative
	under int    // handshakes in progress
	begun uint64 // total number of handshakes started so far
	cut   uint64 // value of begun when the limit was last halved
}

// Begin records the start of a handshake and returns a ticket for End. If the limit is reached, it returns false.
func (o *Openings) Begin() (ticket uint64, ok bool) {
	if o.under >= firstOpenings-o.less {
		return 0, false
	}
	o.under++
	o.begun++
	return o.begun, true
}

// End records that a handshake has ended, successfully or not. ticket is the result of Begin. repeated is set if one of
// its packets was resent.
func (o *Openings) End(ticket uint64, repeated bool) {
	o.under--
	bound := firstOpenings - o.less
	switch {
	case !repeated:
		bound = min(bound+1, mostOpenings)
	case ticket > o.cut:
		bound, o.cut = max(bound/2, 1), o.begun
	}
	o.less = firstOpenings - bound
}
