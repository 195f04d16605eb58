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

// mostLanes bounds the LIDs of one port that ranks publish as their own. A node's block holds 256
// different ones (fabric.MaxBases), and a mask of seven bits on three ports would have more.
// Streams use all of them.
const mostLanes = 16

// lane is which of a port's LIDs a rank publishes, and sends its datagrams from. Multiplication
// with the golden ratio spreads ranks of any stride: those at one port may be every other one of a
// node, or every fourth.
func lane(rank int, lmc uint8) uint8 {
	lanes := uint64(min(1<<lmc, mostLanes))
	return uint8(uint64(uint32(rank)*0x9e3779b1) * lanes >> 32)
}

// way is where packets to a peer leave this port: by which of its LIDs, or by which GID. A reliable
// queue pair drops what comes from elsewhere, so the peer has to know.
type way struct {
	bits uint8        // which of the port's LIDs
	sgid uint8        // index of the GID
	at   fabric.Tuple // what the peer sends to; Num is 0
}

// own is the way by the address that the endpoint publishes.
func (l *local) own() way { return way{bits: l.bits, sgid: l.sgid, at: l.tuple} }

// way is the way to a peer. On InfiniBand those of a turn each take another LID; on RoCE it is by
// the GID whose address the node's routes give for the peer.
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

// gidAddr is the address in a tuple of RoCE for a GID.
func gidAddr(kind fabric.Kind, gid [16]byte) (addr [16]byte) {
	if kind == fabric.ROCE4 {
		copy(addr[:], gid[12:])
		return addr
	}
	return gid
}

// tupleGID is the GID of a tuple that has one.
func tupleGID(t fabric.Tuple) (gid [16]byte) {
	if t.Kind == fabric.ROCE4 {
		gid[10], gid[11] = 0xff, 0xff
		copy(gid[12:], t.Addr[:4])
		return gid
	}
	return t.Addr
}

// by is the route to a tuple by a way.
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

// route is the way from here to a tuple for datagrams, or why there is none.
func (l *local) route(to fabric.Tuple) (verbs.Route, error) {
	if err := l.apart(to); err != nil {
		return verbs.Route{}, err
	}
	return l.by(l.way(to, 0), to), nil
}

// source is a GID that packets can leave by.
type source struct {
	index uint8
	addr  [16]byte
}

// sources are the GIDs of a RoCE port that are of the kind of the published one, so that peers of
// that kind take packets from them. They change when interfaces get and lose addresses.
type sources struct {
	ask func(netip.Addr) netip.Addr // this node's own address in packets to another; the zero value: none

	mu   sync.Mutex
	list []source
}

// sources lists what packets may leave by if a GID is published. A GID that the user has chosen is
// the only one.
func (p *found) sources(gid int, chosen bool) (list []source) {
	of := p.gids[gid]
	for i, g := range p.gids {
		if i == gid || !chosen && g.Addr != [16]byte{} && g.Type == of.Type && isIPv4(g.Addr) == isIPv4(of.Addr) {
			list = append(list, source{index: uint8(i), addr: g.Addr})
		}
	}
	return list
}

// to is the GID by which the node's routes lead to a peer, or the published one if they lead
// elsewhere than through this port. ok is false if the port has neither.
func (s *sources) to(peer, published fabric.Tuple) (found source, ok bool) {
	if s == nil {
		return found, false
	}
	s.mu.Lock()
	list := s.list
	s.mu.Unlock()
	own := tupleGID(published)
	gid := netip.AddrFrom16(tupleGID(peer)).Unmap()
	if len(list) > 1 && !gid.IsLinkLocalUnicast() { // which link an address of all links is on, no route knows
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

// set replaces the GIDs and reports whether they are others.
func (s *sources) set(list []source) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = !slices.Equal(list, s.list)
	s.list = list
	return changed
}

// kernelSource asks the kernel's routes: a UDP socket that is connected has the address that
// packets would leave with. Nothing is sent.
func kernelSource(peer netip.Addr) netip.Addr {
	const roce = 4791 // RoCE v2 (InfiniBand architecture, annex A17)
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(peer, roce)))
	if err != nil {
		return netip.Addr{} // no route
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

// local is where an endpoint is on the network, and how it sends.
type local struct {
	name   string
	tuple  fabric.Tuple // Num is 0
	port   uint8
	sgid   uint8 // index; counts where packets have a GRH
	bits   uint8 // which of the port's LIDs
	sl     uint8
	pkey   uint16 // index
	key    uint16 // at that index; 0: the table has none
	lid    uint16 // the first of the port's LIDs
	lmc    uint8  // there are 1<<lmc of them
	mtu    verbs.MTU
	global bool // packets have a GRH

	sources *sources // of RoCE
}

// limited reports whether the endpoint is a limited member of its partition.
func (l *local) limited() bool { return l.lid != 0 && l.key != 0 && l.key&fullMember == 0 }

// medium says what an address is one of.
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

// subnetOf is the prefix of the subnet that an address is in, if it is one of InfiniBand.
func subnetOf(t fabric.Tuple) (prefix [8]byte, ok bool) {
	switch t.Kind {
	case fabric.IB:
		return defaultSubnet, true
	case fabric.IBGID:
		return [8]byte(t.Addr[:8]), true
	}
	return prefix, false
}

// apart says why a tuple cannot be reached from here, or nil.
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

// source is where a datagram came from, by its completion and the 40 bytes
// before it.
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
