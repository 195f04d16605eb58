package ibrun

import (
	"time"

	"ibrun/internal/job"
)

// Stats is what one rank has counted since Init. Fields are added in later versions, none is
// removed.
type Stats struct {
	Messages uint64 // sent, those to this rank itself included
	Bytes    uint64 // in those messages

	Peers      uint64 // ranks that this one has exchanged messages with
	LocalPeers uint64 // of those, ranks of the same node

	Lookups      uint64 // questions to the agent for the addresses of a node
	Checks       uint64 // questions whether a slow rank still has its address
	AddressBytes uint64 // spent on addresses and handshakes

	Connections    uint64 // opened over the network
	Reopened       uint64 // of those, opened again after they were closed because they were idle
	Streams        uint64 // ends of streams between this rank and others
	Moves          uint64 // times that this rank moved from datagrams to a stream
	StreamMessages uint64 // sent by a stream

	Datagrams   uint64 // sent
	Retransmits uint64 // datagram segments sent again
	Strangers   uint64 // datagrams received that are not this job's, and were dropped
	Rejects     uint64 // messages for an earlier program of a rank

	DatagramQueuePairs uint64        // InfiniBand: made for datagrams
	StreamQueuePairs   uint64        // InfiniBand: used by streams
	ColdQueuePairs     uint64        // of those, made only when a stream needed them
	SpareQueuePairs    uint64        // InfiniBand: made for streams and not used
	PinnedBytes        uint64        // InfiniBand: registered memory
	OpeningTime        time.Duration // InfiniBand: spent on opening the device

	// Time from the Send of the first message to a rank until that rank has acknowledged it: the
	// median and the longest of all ranks, up to 9 % too long. Zero if there was none.
	FirstMessageMedian, FirstMessageLongest time.Duration
}

// Stats returns what this rank has counted so far.
func (w *World) Stats() Stats {
	tally := w.table.Tally()
	return statsOf(&tally)
}

func statsOf(t *job.Tally) Stats {
	n := &t.Sum
	return Stats{
		Messages: n[job.CountMessages], Bytes: n[job.CountBytes],
		Peers: n[job.CountPeers], LocalPeers: n[job.CountLocal],
		Lookups: n[job.CountLookups], Checks: n[job.CountChecks], AddressBytes: n[job.CountAddressBytes],
		Connections: n[job.CountConnections], Reopened: n[job.CountReopened], Streams: n[job.CountStreams],
		Moves: n[job.CountMoves], StreamMessages: n[job.CountStreamed],
		Datagrams: n[job.CountDatagrams], Retransmits: n[job.CountRetransmits],
		Strangers: n[job.CountStrangers], Rejects: n[job.CountRejects],
		DatagramQueuePairs: n[job.CountDatagramPairs], StreamQueuePairs: n[job.CountStreamPairs],
		ColdQueuePairs: n[job.CountCold], SpareQueuePairs: n[job.CountSparePairs],
		PinnedBytes:        n[job.CountPinned],
		OpeningTime:        time.Duration(n[job.CountOpening]) * time.Microsecond,
		FirstMessageMedian: t.Latency.Quantile(0.5), FirstMessageLongest: t.Latency.Quantile(1),
	}
}
