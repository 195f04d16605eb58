package job

import (
	"math"
	"math/bits"
	"time"
)

// Count names one of the sums of a Tally.
type Count uint8

// What ranks and agents count. The order is on the wire.
const (
	CountRanks         Count = iota // ranks that reported
	CountPeers                      // peers used, summed over ranks, local ones included
	CountLocal                      // of those, peers on the same node
	CountLookups                    // blocks that ranks asked their agents for
	CountChecks                     // questions whether a slow peer is still where it was, past all caches
	CountAddressBytes               // bytes of answers, handshakes and the eager table spent on addresses
	CountConnections                // connections opened
	CountReopened                   // of those, opened again after an idle close
	CountStreams                    // ends of streams between pairs
	CountMessages                   // messages sent
	CountBytes                      // bytes of messages sent
	CountDatagrams                  // datagrams sent
	CountRetransmits                // segments sent again
	CountStrangers                  // datagrams of others, dropped
	CountRejects                    // messages to an epoch that is gone
	CountPuts                       // PMI: values put
	CountGets                       // PMI: values asked for
	CountFences                     // PMI: barriers and fences that a rank took part in
	CountBarriers                   // messages on the edges of the tree for barriers, PMI's and others
	CountAway                       // questions about values that left their node, PMI's and others
	CountBulkFetches                // PMI: times that all values were sent to all who asked
	CountDatagramPairs              // queue pairs for datagrams
	CountStreamPairs                // queue pairs that streams were made of
	CountCold                       // of those, made when they were needed already
	CountPinned                     // bytes of memory registered at the end
	CountOpening                    // microseconds that opening devices took
	CountMoves                      // times that a sender moved from datagrams to a stream
	CountStreamed                   // messages sent by a stream
	CountSparePairs                 // queue pairs made for streams that none has used
	Counts
)

// CountNames are the names of the sums in reports.
var CountNames = [Counts]string{
	"ranks", "peers", "local_peers", "lookups", "checks", "address_bytes", "connections", "reopened", "streams",
	"messages", "bytes", "datagrams", "retransmits", "strangers", "rejects",
	"pmi_puts", "pmi_gets", "pmi_fences", "barrier_messages", "value_questions", "pmi_bulk_transfers",
	"datagram_queue_pairs", "stream_queue_pairs", "cold_queue_pairs", "pinned_bytes", "opening_us",
	"moves", "stream_messages", "spare_queue_pairs",
}

// LevelTally counts the questions that agents of one tree level were asked.
type LevelTally struct {
	Asked   uint64 `json:"asked"`   // questions from ranks and neighbours
	Hit     uint64 `json:"hit"`     // questions answered from the cache
	Own     uint64 `json:"own"`     // questions answered with values of the agent's own ranks
	Merged  uint64 `json:"merged"`  // questions that waited for the answer to an equal question that was already sent
	Relayed uint64 `json:"relayed"` // questions passed on to another agent
}

// MaxLevels bounds the levels that are counted apart: deeper ones count as the last.
const MaxLevels = 64

// MaxCount is the most that a sum can be; it does not grow beyond it.
const MaxCount = 1<<63 - 1

// Tally is what a job's --stats adds up. The zero value is empty.
type Tally struct {
	Sum     [Counts]uint64
	Levels  []LevelTally // by depth; the root is 0
	Latency Histogram    // of first messages: from Send to the peer's acknowledgement
}

// Add merges o into t.
func (t *Tally) Add(o *Tally) {
	for i := range t.Sum {
		t.Sum[i] = Added(t.Sum[i], o.Sum[i])
	}
	for i, l := range o.Levels {
		*t.Level(i) = t.Level(i).plus(l)
	}
	for i := range t.Latency {
		t.Latency[i] = uint32(min(uint64(t.Latency[i])+uint64(o.Latency[i]), math.MaxUint32))
	}
}

// Added is the sum of two counts, each of which is at most MaxCount.
func Added(a, b uint64) uint64 { return min(a+b, MaxCount) }

// Level returns the counts of one level, made if need be.
func (t *Tally) Level(i int) *LevelTally {
	i = min(i, MaxLevels-1)
	for len(t.Levels) <= i {
		t.Levels = append(t.Levels, LevelTally{})
	}
	return &t.Levels[i]
}

func (l LevelTally) plus(o LevelTally) LevelTally {
	return LevelTally{
		Added(l.Asked, o.Asked), Added(l.Hit, o.Hit), Added(l.Own, o.Own), Added(l.Merged, o.Merged),
		Added(l.Relayed, o.Relayed),
	}
}

// Histogram counts durations in buckets of an eighth of a doubling, from a
// microsecond to over a minute: about 9 % wide.
type Histogram [8 * 27]uint32

// Observe counts one duration.
func (h *Histogram) Observe(d time.Duration) {
	h[bucketOf(d)]++
}

func bucketOf(d time.Duration) int {
	us := uint64(max(d, time.Microsecond) / (time.Microsecond / 8)) // eighths, at least 8
	top := bits.Len64(us) - 4                                       // us>>top is 8 to 15
	return min(top*8+int(us>>top)-8, len(Histogram{})-1)
}

// Quantile returns the upper bound of the bucket that holds the q-th part of
// all observations, 0 <= q <= 1; 0 if there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	total := uint64(0)
	for _, n := range h {
		total += uint64(n)
	}
	need, seen := uint64(q*float64(total)), uint64(0)
	for i, n := range h {
		seen += uint64(n)
		if n > 0 && (seen > need || seen == total) {
			return time.Duration(uint64(9+i%8)<<(i/8)) * time.Microsecond / 8
		}
	}
	return 0
}
