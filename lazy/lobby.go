package lazy

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"ibrun/fabric"
)

// lobby holds accepted streams whose peer has not been authenticated yet. Every process that reaches this node can open
// such streams, and each takes a descriptor. If there are too many, the lobby closes the oldest stream of the source
// that has the most. A peer authenticates itself with its first bytes, so its stream is seldom the oldest.
type lobby struct {
	mu     sync.Mutex
	guests []*guest // oldest first

	expected int       // number of offers of this rank that peers may be about to dial, as of counted
	counted  time.Time // time at which expected was counted
}

// guest is a stream in the lobby.
type guest struct {
	stream fabric.Stream
	from   netip.Prefix // source; see origin
}

// Maximum numbers of guests, in addition to lobby.expected.
const (
	guestsOfOne = 64  // from one source; all ranks of a node are one source
	guestsOfAll = 256 // a quarter of the minimum number of descriptors of a process
)

// countAgain is the minimum time between two counts of lobby.expected.
const countAgain = 10 * time.Millisecond

// enter adds a stream to the lobby, and closes another one if there are too many. It does not add a stream without an
// address, whose fabric limits such streams itself.
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

// expect returns the number of expected guests. It calls count only if the last count is older than countAgain.
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

// origin returns the source of a stream: its IPv4 address, or the /64 network of its IPv6 address, in which a host can
// have any number of addresses (RFC 4291 section 2.5.4).
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
