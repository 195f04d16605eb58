package peer

import "time"

// Worth says what a pair has to send, of late, for a stream to be worth it. A message counts Each,
// and 1 for each time that Packet bytes are in it: what one packet does not carry is much dearer as
// datagrams. What has been sent is forgotten at so much a second, so a pair that sends now and then
// never gets a stream. One that has reached the limit stays beyond it for as long as it has the
// stream.
type Worth struct {
	Limit     int // 0: a stream is never worth it for that alone
	PerSecond int // 0: nothing is forgotten
	Packet    int // bytes, 1 or more
	Each      int
}

// worth is what a pair has sent of late.
type worth struct {
	level time.Duration // what it counts, times a second
	at    time.Duration // of the last message
	over  bool          // the limit was reached
}

// reached takes a message, and reports whether the limit is reached or was.
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
