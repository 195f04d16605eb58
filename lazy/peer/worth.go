package peer

import "time"

// Worth says how much a pair has to send in a short time before it moves to a stream. Each message adds Each to a
// count, plus 1 for each Packet bytes that it contains, because a message that needs several datagrams costs much more
// than one that needs one. The count decreases by PerSecond, so a pair that sends rarely never moves. Once the count
// has reached Limit, it stays there until the stream, or the attempt to open one, has ended.
type Worth struct {
	Limit     int // 0 means that the amount of data never moves the pair
	PerSecond int // decrease of the count per second, 0 or more
	Packet    int // number of bytes that adds 1 to the count; 0 means Config.MTU
	Each      int // amount that each message adds to the count
}

// worth is the current count of a pair; see Worth.
type worth struct {
	level time.Duration // the count, multiplied by time.Second
	at    time.Duration // time of the last counted message, on the clock of Step
	over  bool          // the count has reached the limit
}

// reached adds a message of size bytes to the count, and reports whether the count has reached the limit now or
// earlier.
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
