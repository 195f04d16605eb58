package peer

import "time"

// Worth says how much a rank must send to a peer in a short time before it moves from datagrams to a stream. The rank
// has a count for the peer. Each message adds Each to the count, plus 1 for every full Packet bytes of its length,
// because a message that needs several datagrams costs more than one that needs one. The count falls by PerSecond every
// second, but not below 0. A count that has reached Limit does not fall until the stream, or the attempt to open one,
// has ended. Then it restarts at 0.
type Worth struct {
	Limit     int // 0 means that the amount of data never moves the pair
	PerSecond int // decrease of the count per second, 0 or more
	Packet    int // number of bytes of a message that add 1 to the count; 0 means Config.MTU
	Each      int // amount that each message adds to the count
}

// worth is the count that Worth describes. The zero value is a count of 0.
type worth struct {
	level time.Duration // the count, multiplied by time.Second
	at    time.Duration // time of the last counted message, on the clock of Step
	over  bool          // the count has reached the limit at some time
}

// reached adds a message of size bytes to the count. It reports whether the count has ever reached cfg.Limit, after
// which it counts no more messages. If cfg.Limit is 0, reached returns false.
func (w *worth) reached(cfg Worth, size int, now time.Duration) bool {
	if cfg.Limit == 0 || w.over {
		return w.over
	}
	if past := now - w.at; cfg.PerSecond > 0 && past > 0 {
		w.level -= min(w.level, min(past, w.level)*time.Duration(cfg.PerSecond))
	}
	w.at = now
	w.level += time.Duration(cfg.Each+size/cfg.Packet) * time.Second
	w.over = w.level >= time.Duration(cfg.Limit)*time.Second
	return w.over
}
