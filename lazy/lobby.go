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

	expected int       // number of peers that may be about to dial this rank, as of counted
	counted  time.Time // time at which expected was counted
}

// guest is an accepted stream whose peer has not been authenticated yet.
type guest struct {
	stream fabric.Stream
	from   netip.Prefix // source of the stream, as origin returns it
}

// Maximum numbers of streams in lobby.guests. While peers are expected to dial, lobby.expected is added to each.
const (
	guestsOfOne = 64  // from one source; all ranks of a node are one source
	guestsOfAll = 256 // a quarter of the minimum number of descriptors of a process
)

// countAgain is the minimum time between two counts of lobby.expected.
const countAgain = 10 * time.Millisecond

// enter adds a stream to the lobby, and closes another one if there are too many. A stream without an IP address is not
// added, because its fabric limits the number of such streams itself.
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

// sources returns the number of streams in l.guests from each source.
func (l *lobby) sources() map[netip.Prefix]int {
	of := map[netip.Prefix]int{}
	for _, g := range l.guests {
		of[g.from]++
	}
	return of
}

// expect returns the number of peers that may be about to dial this rank. It calls count only if the last count is
// older than countAgain.
func (l *lobby) expect(count func() int) int {
	if now := time.Now(); now.Sub(l.counted) > countAgain {
		l.expected, l.counted = count(), now
	}
	return l.expected
}

// busiest returns the source with the most streams, given the number of streams from each source.
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

// leave removes g after its peer was authenticated or has failed to authenticate. If evict has removed g already, leave
// does nothing.
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
