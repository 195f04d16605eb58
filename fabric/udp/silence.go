package udp

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// TCP_USER_TIMEOUT would end a connection whose far kernel does not acknowledge. It
// also ends one whose receiver takes nothing for so long, although the far kernel
// answers every probe of the shut window (net/ipv4/tcp_timer.c, tcp_probe_timer):
// a rank that computes for half a minute, or is stopped. So this endpoint looks
// after its connections itself.

// defaultSilence is how long a far kernel may leave what is sent unacknowledged.
const defaultSilence = 20 * time.Second

// unansweredLeast is how many repetitions in a row must be without an answer. One or
// two may be lost, and a kernel answers probes no faster than two in a second
// (net.ipv4.tcp_invalid_ratelimit); the next one may be two minutes later.
const unansweredLeast = 3

// looksPer is how often a connection is looked at in the time that it may be silent.
const looksPer = 4

// silence tells a far kernel that does not answer from one that has nothing to
// answer. Keepalive misses the first while data is under way.
type silence struct {
	most time.Duration
	// of the first of the looks in a row that found too many repetitions without an answer; 0: the
	// last did not
	since time.Duration
}

// dead takes what a look at now, above 0, has found: repetitions of data or of probes
// that are not answered yet, and the time since the last acknowledgement. One
// look alone may come between a probe and its answer.
func (s *silence) dead(now time.Duration, unanswered int, acked time.Duration) bool {
	switch {
	case unanswered < unansweredLeast || acked < s.most/looksPer:
		s.since = 0
	case s.since == 0:
		s.since = now
	default:
		return acked >= s.most && now-s.since >= s.most/looksPer
	}
	return false
}

// bound makes a dead far kernel show itself: while data is under way by watch, and
// otherwise by keepalive. Package net has switched Nagle's algorithm off.
func (f *Fabric) bound(c *net.TCPConn) {
	_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: f.cfg.Silence / 2, Interval: f.cfg.Silence / 4,
		Count: 3})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending.Err() != nil {
		return
	}
	if f.watched == nil {
		f.watched = map[*net.TCPConn]*silence{}
		f.loops.Go(f.watch)
	}
	f.watched[c] = &silence{most: f.cfg.Silence}
}

// watch is the goroutine that ends connections whose far kernel is silent: what
// reads or writes there gets os.ErrDeadlineExceeded.
func (f *Fabric) watch() {
	began := time.Now()
	look := time.NewTicker(f.cfg.Silence / looksPer)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-f.ending.Done():
			return
		}
		f.mu.Lock()
		for c, s := range f.watched {
			unanswered, acked, err := acknowledgements(c)
			switch {
			case err != nil: // it is closed
				delete(f.watched, c)
			case s.dead(time.Since(began), unanswered, acked): // again until it is closed: its reader may reset it
				_ = c.SetDeadline(time.Unix(1, 0))
			}
		}
		f.mu.Unlock()
	}
}

// acknowledgements is what the kernel knows of the far one.
func acknowledgements(c *net.TCPConn) (unanswered int, acked time.Duration, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var info *unix.TCPInfo
	if err := control(raw, func(fd int) (err error) {
		info, err = unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		return err
	}); err != nil {
		return 0, 0, err
	}
	return int(max(info.Retransmits, info.Probes)), time.Duration(info.Last_ack_recv) * time.Millisecond, nil
}
