package report

import (
	"io"
	"time"

	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// Statistics is what --stats=json prints, in one line.
type Statistics struct {
	Mode     string            `json:"mode"` // "lazy" or "eager"
	Why      string            `json:"why"`
	Fabric   string            `json:"fabric"`
	Ranks    uint32            `json:"ranks"`
	Nodes    uint32            `json:"nodes"`
	Possible uint64            `json:"possible_peers"` // maximum number of peers of one rank
	Sums     map[string]uint64 `json:"sums"`           // over all ranks that reported
	Levels   []job.LevelTally  `json:"levels"`         // counts by level of the tree; the root is level 0
	Share    float64           `json:"root_share"`     // fraction of the questions of ranks that reached the root
	P50      float64           `json:"first_message_p50_us"`
	P99      float64           `json:"first_message_p99_us"`
}

func NewStatistics(j *job.Job, t *job.Tally) Statistics {
	s := Statistics{
		Mode: "lazy", Why: j.Transport.Why, Fabric: j.Transport.Fabric, Ranks: j.Size, Nodes: j.Nodes,
		Possible: uint64(j.Size) - 1, Sums: map[string]uint64{}, Levels: t.Levels,
		P50: microseconds(t.Latency.Quantile(0.5)), P99: microseconds(t.Latency.Quantile(0.99)),
	}
	if j.Transport.Eager {
		s.Mode = "eager"
	}
	for i, name := range job.CountNames {
		s.Sums[name] = t.Sum[i]
	}
	if lookups := t.Sum[job.CountLookups] + t.Sum[job.CountChecks]; lookups > 0 && len(t.Levels) > 0 {
		s.Share = float64(t.Levels[0].Asked) / float64(lookups)
	}
	return s
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func (s Statistics) JSON(w io.Writer) {
	_ = plain.WriteJSON(w, s) // of numbers and strings: only the writer can fail
}

// Text prints the same for the user, on as many lines as there are ideas.
func (s Statistics) Text(line func(format string, args ...any)) {
	ranks := s.Sums["ranks"]
	line("stats: %s over %s, %s (%s)", plain.Plural(int(s.Ranks), "rank"), plain.Plural(int(s.Nodes), "node"), s.Mode, s.Why)
	if ranks == 0 {
		line("stats: no rank reported: programs report when they call Finalize of the package ibrun")
		return
	}
	if s.Sums["pmi_fences"] > 0 {
		line("stats: PMI: %d puts, %d gets, %d fences; %d questions about values left their node, all values were "+
			"sent %s; barriers cost %d messages on the edges of the tree",
			s.Sums["pmi_puts"], s.Sums["pmi_gets"], s.Sums["pmi_fences"], s.Sums["value_questions"],
			plain.Plural(int(s.Sums["pmi_bulk_transfers"]), "time"), s.Sums["barrier_messages"])
	}
	per := func(name string) float64 { return float64(s.Sums[name]) / float64(ranks) }
	line("stats: peers %.1f per rank of %d possible, %.1f of them on the same node", per("peers"), s.Possible,
		per("local_peers"))
	line("stats: look-ups %d by %s, %d checks of slow peers, %.1f bytes per rank on addresses", s.Sums["lookups"],
		plain.Plural(int(ranks), "rank"), s.Sums["checks"], per("address_bytes"))
	for i, l := range s.Levels {
		if l.Asked > 0 {
			line("stats: level %d was asked %d: %d from its cache, %d about its own ranks, %d joined another, %d "+
				"passed on", i, l.Asked, l.Hit, l.Own, l.Merged, l.Relayed)
		}
	}
	line("stats: the root saw %.1f %% of the look-ups", 100*s.Share)
	line(
		"stats: connections %d, %d of them again; %d messages, %d bytes; %d datagrams, %d retransmissions, "+
			"%d strangers",
		s.Sums["connections"], s.Sums["reopened"],
		s.Sums["messages"], s.Sums["bytes"], s.Sums["datagrams"], s.Sums["retransmits"], s.Sums["strangers"])
	line("stats: streams %d, counted by both sides; senders moved to one %s and sent %s by it", s.Sums["streams"],
		plain.Plural(int(s.Sums["moves"]), "time"), plain.Plural(int(s.Sums["stream_messages"]), "message"))
	if s.Sums["datagram_queue_pairs"] > 0 {
		line("stats: InfiniBand: %s for datagrams, %d for streams of %d possible, %d of them not ready when needed, "+
			"%d ready that none has used; %.1f KiB of memory registered per rank; opening took %.1f ms per rank",
			plain.Plural(int(s.Sums["datagram_queue_pairs"]), "queue pair"), s.Sums["stream_queue_pairs"],
			uint64(s.Ranks)*s.Possible, s.Sums["cold_queue_pairs"], s.Sums["spare_queue_pairs"],
			float64(s.Sums["pinned_bytes"])/1024/float64(s.Sums["datagram_queue_pairs"]),
			float64(s.Sums["opening_us"])/1000/float64(s.Sums["datagram_queue_pairs"]))
	}
	line("stats: first message to a peer: p50 %.0f us, p99 %.0f us", s.P50, s.P99)
}
