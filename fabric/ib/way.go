package ib

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
)

// mostLanes is the maximum number of LIDs of one port that ranks publish as their own. The address block of a node
// holds at most 256 different LIDs (fabric.MaxBases). Three ports with 128 LIDs each (LMC 7) would exceed that.
// Streams use all LIDs of a port.
const mostLanes = 16

// lane returns the path bits of the LID that a rank publishes and sends its datagrams from: the offset from the port's
// first LID. The multiplication by the golden ratio (Fibonacci hashing) spreads ranks evenly, even if only every
// second or fourth rank of the node uses the port.
func lane(rank int, lmc uint8) uint8 {
	lanes := uint64(min(1<<lmc, mostLanes))
	return uint8(uint64(uint32(rank)*0x9e3779b1) * lanes >> 32)
}

// way holds the source address of packets to a peer: one of this port's LIDs, or one of its GIDs. The peer has to know
// it, because a reliable queue pair drops packets from any other address.
type way struct {
	bits uint8        // path bits: offset of the LID from the port's first LID
	sgid uint8        // index of the GID
	at   fabric.Tuple // address that the peer sends to; Num is 0
}

// own returns the way whose source is the address that the endpoint publishes.
func (l *local) own() way { return way{bits: l.bits, sgid: l.sgid, at: l.tuple} }

// way returns the way to a peer. On InfiniBand, consecutive values of turn select different LIDs of the port. On RoCE,
// the source is the GID whose address the node's routing table selects for the peer.
func (l *local) way(to fabric.Tuple, turn uint32) way {
	w := l.own()
	switch l.tuple.Kind {
	case fabric.IB, fabric.IBGID:
		w.bits = uint8((uint32(l.bits) + turn) & (1<<l.lmc - 1))
		w.at.LID = l.lid + uint16(w.bits)
	default:
		if s, ok := l.sources.to(to, l.tuple); ok {
			w.sgid = s.index
			w.at.Addr = gidAddr(l.tuple.Kind, s.addr)
		}
	}
	return w
}

// gidAddr returns the address that a RoCE tuple of the given kind has for gid: four bytes for ROCE4, else all 16.
func gidAddr(kind fabric.Kind, gid [16]byte) (addr [16]byte) {
	if kind == fabric.ROCE4 {
		copy(addr[:], gid[12:])
		return addr
	}
	return gid
}

// tupleGID returns the GID of a tuple. For ROCE4 it is the IPv4-mapped IPv6 address, otherwise Addr.
func tupleGID(t fabric.Tuple) (gid [16]byte) {
	if t.Kind == fabric.ROCE4 {
		gid[10], gid[11] = 0xff, 0xff
		copy(gid[12:], t.Addr[:4])
		return gid
	}
	return t.Addr
}

// by returns the route to a tuple with the source address w.
func (l *local) by(w way, to fabric.Tuple) verbs.Route {
	r := verbs.Route{Port: l.port, SL: l.sl, PathBits: w.bits, Global: l.global, SGIDIndex: w.sgid, HopLimit: 255}
	if !l.global {
		r.HopLimit = 0
	}
	switch to.Kind {
	case fabric.ROCE4, fabric.ROCE6:
		r.DGID = tupleGID(to)
	default:
		r.DLID = to.LID
		if l.global {
			r.DGID = to.Addr
		}
	}
	return r
}

// route returns the route for datagrams to a tuple, or an error if the tuple cannot be reached from this port.
func (l *local) route(to fabric.Tuple) (verbs.Route, error) {
	if err := l.apart(to); err != nil {
		return verbs.Route{}, err
	}
	return l.by(l.way(to, 0), to), nil
}

// source represents a GID that can be the source address of packets.
type source struct {
	index uint8
	addr  [16]byte
}

// sources holds the GIDs of a RoCE port that have the same RoCE version and IP version as the published GID, so that
// its peers accept packets from them. They change when an interface gets or loses an address.
type sources struct {
	ask func(netip.Addr) netip.Addr // returns the source address for a peer, or the zero value if there is no route

	mu   sync.Mutex
	list []source
}

// sources returns the GIDs that packets may have as their source if the GID at index gid is published. If the user has
// chosen that GID, it is the only one.
func (p *found) sources(gid int, chosen bool) (list []source) {
	of := p.gids[gid]
	for i, g := range p.gids {
		if i == gid || !chosen && g.Addr != [16]byte{} && g.Type == of.Type && isIPv4(g.Addr) == isIPv4(of.Addr) {
			list = append(list, source{index: uint8(i), addr: g.Addr})
		}
	}
	return list
}

// to returns the GID that the node's routing table selects for a peer. If the route does not leave through this port,
// to returns the published GID. It reports false if s is nil or the port has neither GID.
func (s *sources) to(peer, published fabric.Tuple) (found source, ok bool) {
	if s == nil {
		return found, false
	}
	s.mu.Lock()
	list := s.list
	s.mu.Unlock()
	own := tupleGID(published)
	gid := netip.AddrFrom16(tupleGID(peer)).Unmap()
	if len(list) > 1 && !gid.IsLinkLocalUnicast() { // the routing table cannot tell the link of a link-local address
		if a := s.ask(gid); a.IsValid() {
			own = a.As16()
		}
	}
	for _, c := range list {
		if c.addr == own {
			return c, true
		}
		if c.addr == tupleGID(published) {
			found, ok = c, true
		}
	}
	return found, ok
}

// set replaces the GIDs and reports whether they have changed.
func (s *sources) set(list []source) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = !slices.Equal(list, s.list)
	s.list = list
	return changed
}

// kernelSource returns the source address that the kernel's routing table selects for peer, or the zero value if there
// is no route. It reads the address of a connected UDP socket and sends nothing.
func kernelSource(peer netip.Addr) netip.Addr {
	const roce = 4791 // RoCE v2 (InfiniBand architecture, annex A17)
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(peer, roce)))
	if err != nil {
		return netip.Addr{} // no route
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

// local holds the network address of an endpoint and the parameters of its packets.
type local struct {
	name   string
	tuple  fabric.Tuple // Num is 0
	port   uint8
	sgid   uint8 // index of the GID; used if packets have a GRH
	bits   uint8 // path bits of the published LID: its offset from lid
	sl     uint8
	pkey   uint16 // index in the port's table of partition keys
	key    uint16 // partition key at that index; 0: none
	lid    uint16 // the first of the port's LIDs
	lmc    uint8  // the port has 1<<lmc LIDs
	mtu    verbs.MTU
	global bool // packets have a GRH

	sources *sources // nil if the port is not RoCE
}

// limited reports whether the endpoint is a limited member of its partition.
func (l *local) limited() bool { return l.lid != 0 && l.key != 0 && l.key&fullMember == 0 }

// medium returns the network type of a tuple and its address, for error messages.
func medium(t fabric.Tuple) string {
	switch t.Kind {
	case fabric.IB, fabric.IBGID:
		return fmt.Sprintf("InfiniBand (LID %d)", t.LID)
	case fabric.ROCE4:
		return fmt.Sprintf("RoCE (%v)", netip.AddrFrom4([4]byte(t.Addr[:4])))
	case fabric.ROCE6:
		return fmt.Sprintf("RoCE v%d (%v)", 2-t.Path, netip.AddrFrom16(t.Addr))
	case fabric.ETH4, fabric.ETH6:
		return fmt.Sprintf("Ethernet (%v)", t.AddrPort().Addr())
	}
	return t.Kind.String()
}

// subnetOf returns the subnet prefix of an InfiniBand address, and false for other addresses.
func subnetOf(t fabric.Tuple) (prefix [8]byte, ok bool) {
	switch t.Kind {
	case fabric.IB:
		return defaultSubnet, true
	case fabric.IBGID:
		return [8]byte(t.Addr[:8]), true
	}
	return prefix, false
}

// apart returns an error if a tuple cannot be reached from this port, or nil. The error names the difference of the
// two networks.
func (l *local) apart(to fabric.Tuple) error {
	there, theirs := subnetOf(to)
	here, ours := subnetOf(l.tuple)
	switch {
	case theirs && ours && there != here:
		return fmt.Errorf("ib: its port (LID %d) is in subnet %x, and port %s of this node (LID %d) in %x; there is "+
			"no way from one subnet to another: choose ports of one with --hca (ibrun --doctor lists them), or use "+
			"--fabric udp",
			to.LID, there, l.name, l.tuple.LID, here)
	case theirs && ours && l.limited() && to.Path == 1:
		return fmt.Errorf("ib: its port (LID %d) and port %s of this node (LID %d) are both limited members of "+
			"partition %#04x, which do not reach each other: make one a full member in the subnet manager's "+
			"partitions.conf, or choose another partition with --pkey; see smpquery pkeys %d",
			to.LID, l.name, l.tuple.LID, l.key, l.lid)
	case theirs && ours:
		return nil
	case to.Kind != l.tuple.Kind && (to.Kind == fabric.ROCE4 || to.Kind == fabric.ROCE6) && !ours,
		to.Path != l.tuple.Path && to.Kind == fabric.ROCE6 && !ours:
		return fmt.Errorf("ib: its node is at %s, and port %s of this node at %s, which do not reach each other: "+
			"choose GIDs of one kind with --gid-index", medium(to), l.name, medium(l.tuple))
	case to.Kind == fabric.ETH4 || to.Kind == fabric.ETH6:
		return fmt.Errorf("ib: its node goes by %s, having no InfiniBand or RoCE that works, and port %s of this "+
			"node by %s: use --fabric udp for all, or see ibrun --doctor", medium(to), l.name, medium(l.tuple))
	case to.Kind != l.tuple.Kind:
		return fmt.Errorf("ib: its node goes by %s, and port %s of this node by %s: choose ports of one kind with "+
			"--hca (ibrun --doctor lists them), or use --fabric udp", medium(to), l.name, medium(l.tuple))
	}
	return nil
}

// source returns the sender of a datagram. It reads the completion c and head, the 40 bytes that the device stores
// before the datagram (the GRH, or the IPv4 header in its place).
func (l *local) source(c *verbs.Completion, head []byte) fabric.Tuple {
	from := fabric.Tuple{Kind: l.tuple.Kind, Num: c.Source}
	switch from.Kind {
	case fabric.ROCE4:
		copy(from.Addr[:4], head[32:36]) // source address of the IPv4 header in the last 20 bytes
	case fabric.ROCE6:
		from.Path = l.tuple.Path
		copy(from.Addr[:], head[8:24])
	case fabric.IBGID:
		from.LID = c.LID
		if copy(from.Addr[:8], l.tuple.Addr[:8]); c.Flags&verbs.HasGRH != 0 {
			copy(from.Addr[:], head[8:24])
		}
	default:
		from.LID = c.LID
	}
	return from
}
