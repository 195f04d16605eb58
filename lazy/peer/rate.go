package peer

import (
	"math"
	"time"
)

// rate estimates how many segments per second reach the peer (draft-cheng-iccrg-delivery-rate). A sample counts the
// segments whose arrival became known between two times, and divides by that time: from the last known arrival before a
// segment was sent, to the acknowledgement of that segment. This time is at least a round trip, so an acknowledgement
// of many segments at once does not give too high a rate.
type rate struct {
	arrived uint32        // number of segments that the peer has received; may wrap
	at      time.Duration // time when the last arrival became known, or when sending began after a pause
	best    [2]uint64     // maximum of segments per second in the current and the previous period
	turned  time.Duration // start of the current period
	least   time.Duration // shortest measured round trip; 0 if none was measured
}

// rateTrips is the length of a period of rate.best in round trips. A period is long enough to contain round trips
// without losses, so losses do not lower the estimate.
const rateTrips = 10

// sample updates the estimate with a segment that has arrived and was sent only once. s describes its transmission, and
// srtt is the smoothed round trip time.
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

// product returns the bandwidth-delay product in segments: the number in flight that uses the bandwidth without a
// queue.
func (r *rate) product() int {
	return int(math.Round(float64(max(r.best[0], r.best[1])) * r.least.Seconds()))
}
