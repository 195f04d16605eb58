package peer

import (
	"math"
	"time"
)

// rate is what the way carries, as the acknowledgements show: the segments that arrived between the
// last arrival before one was sent and its own, over that time (as in
// draft-cheng-iccrg-delivery-rate). That time is a round trip at least, so what a single
// acknowledgement brings at once does not count for more than the round trip has carried.
type rate struct {
	arrived uint32        // segments that the peer has
	at      time.Duration // when the last of them was known to be there, or when sending began after a rest
	best    [2]uint64     // segments in a second, the highest of late: now, and in the time before
	turned  time.Duration // when now began
	least   time.Duration // the shortest round trip; 0: none was measured
}

// Of late is one to two times so many round trips. Losses in each of them do not make the way
// slower.
const rateTrips = 10

// sample takes a segment that has arrived, and was sent once.
func (r *rate) sample(now, srtt time.Duration, s *sending) {
	if trip := max(now-s.at, 1); r.least == 0 || trip < r.least {
		r.least = trip
	}
	if now-r.turned > rateTrips*srtt {
		r.best[1], r.best[0], r.turned = r.best[0], 0, now
	}
	if took := now - s.since; took > 0 {
		r.best[0] = max(r.best[0], uint64(r.arrived-s.arrived)*uint64(time.Second)/uint64(took))
	}
}

// product is the bandwidth times the delay, in segments: what fills the way, and no queue on it.
func (r *rate) product() int {
	return int(math.Round(float64(max(r.best[0], r.best[1])) * r.least.Seconds()))
}
