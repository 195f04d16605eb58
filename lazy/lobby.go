package lazy

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"ibrun/fabric"
)

// lobby holds streams that others have opened and whose they are not known yet.
// Everybody who reaches this node can open some, and each takes a descriptor. When
// there are too many, the oldest one of the source that has the most is closed: a
// peer proves itself with its first bytes, and so is seldom the oldest.
type lobby struct {
	mu     sync.Mutex
	guests []*guest // the oldest first

	expected int       // offers that a peer may be about to take
	counted  time.Time // when that was
}

// guest is one of those streams.
type guest struct {
	stream fabric.Stream
	from   netip.Prefix
}

// How many guests there may be besides those that are expected.
const (
	guestsOfOne = 64  // of one source, which all ranks of a node are
	guestsOfAll = 256 // a quarter of the descriptors that a process has at least
)

// countAgain is how long the number of expected guests is good for.
const countAgain = 10 * time.Millisecond

// enter takes a guest in, who may have to leave for it. A stream without an
// address, which its fabric bounds itself, is none.
func (l *lobby) enter(s fabric.Stream, expected func() int) *guest {
	g := &guest{stream: s}
	var known bool
	if g.from, known = origin(s); !known {
		return g
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.guests = append(l.guests, g)
	of := l.sources()
	switch {
	case of[g.from] <= guestsOfOne && len(l.guests) <= guestsOfAll:
	case of[g.from] > guestsOfOne+l.expect(expected):
		l.evict(g.from)
	case len(l.guests) > guestsOfAll+l.expect(expected):
		l.evict(busiest(of))
	}
	return g
}

// sources returns the number of guests from each source prefix.
func (l *lobby) sources() map[netip.Prefix]int {
	of := map[netip.Prefix]int{}
	for _, g := range l.guests {
		of[g.from]++
	}
	return of
}

// expect counts the expected guests, not for every one that comes.
func (l *lobby) expect(count func() int) int {
	if now := time.Now(); now.Sub(l.counted) > countAgain {
		l.expected, l.counted = count(), now
	}
	return l.expected
}

// busiest returns the source prefix with the most guests. Of holds the number of guests from each prefix.
func busiest(of map[netip.Prefix]int) (most netip.Prefix) {
	for from, n := range of {
		if n > of[most] {
			most = from
		}
	}
	return most
}

// evict closes the oldest stream of a source.
func (l *lobby) evict(from netip.Prefix) {
	i := slices.IndexFunc(l.guests, func(g *guest) bool { return g.from == from })
	l.guests[i].stream.Close()
	l.guests = slices.Delete(l.guests, i, i+1)
}

// leave removes a guest that has been authenticated or has hung up. It does nothing if the guest was evicted.
func (l *lobby) leave(g *guest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.guests = slices.DeleteFunc(l.guests, func(o *guest) bool { return o == g })
}

// origin is where a stream comes from: an address, or the network of one in IPv6,
// where a host can have as many as it likes (RFC 4291 section 2.5.4).
func origin(s fabric.Stream) (from netip.Prefix, known bool) {
	c, ok := s.(net.Conn)
	if !ok {
		return from, false
	}
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return from, false
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	from, err := addr.Prefix(bits)
	return from, err == nil
}
