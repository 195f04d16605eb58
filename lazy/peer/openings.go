package peer

const (
	firstOpenings = 2
	mostOpenings  = 32
)

// Openings bounds the handshakes that a rank has under way. A rank that turns to
// a thousand others at once would otherwise drown them, and itself, in
// repetitions. As in a window of segments (RFC 5681), one that had to be repeated
// halves the bound, once for all that were begun before, and one that was not
// raises it by one. The zero value is ready.
type Openings struct {
	less  int    // the bound is firstOpenings without these
	under int    // begun and not over
	begun uint64 // in all
	cut   uint64 // of them, how many when the bound was halved last
}

// Begin begins a handshake, if one more may be under way. The ticket is for End.
func (o *Openings) Begin() (ticket uint64, ok bool) {
	if o.under >= firstOpenings-o.less {
		return 0, false
	}
	o.under++
	o.begun++
	return o.begun, true
}

// End is the end of a handshake, good or bad.
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
