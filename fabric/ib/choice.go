package ib

import (
	"fmt"
	"strconv"
	"strings"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
)

// request is what the user asked for.
type request struct {
	device string // "": any
	port   int    // 0: the first active one
	gid    int    // index in the port's table; -1: chosen
	pkey   uint16 // 0: the first full membership
	sl     uint8
	rank   int  // among those of the node: spreads them over a port's LIDs
	path   bool // service levels come from the subnet manager
}

// parsePort reads "mlx5_0:1", "mlx5_0" or nothing.
func parsePort(text string) (w request, err error) {
	name, number, found := strings.Cut(text, ":")
	w.device = name
	if !found {
		return w, nil
	}
	if w.port, err = strconv.Atoi(number); err != nil || w.port < 1 || name == "" {
		return w, fmt.Errorf("%q is no port: write DEVICE:PORT, as in mlx5_0:1", text)
	}
	return w, nil
}

// found is what a port says of itself; empty entries of its tables are zero.
type found struct {
	device string
	number int
	port   verbs.Port
	gids   []verbs.GID
	pkeys  []uint16
}

func (p *found) String() string { return fmt.Sprintf("%s:%d", p.device, p.number) }

// usable says why a port cannot carry anything, or nil.
func (p *found) usable() error {
	switch {
	case p.port.State != verbs.PortActive && p.port.Link != verbs.LinkEthernet && p.port.State == verbs.PortInit:
		return fmt.Errorf("port %v is in state init: it has a cable, and no subnet manager has configured it; see "+
			"sminfo, or start opensm", p)
	case p.port.State != verbs.PortActive:
		return fmt.Errorf("port %v is %v: see ibstat %s, or choose another with --hca", p, p.port.State, p.device)
	case p.port.Link != verbs.LinkEthernet && p.port.LID == 0:
		return fmt.Errorf("port %v has no LID: no subnet manager has been there; see sminfo", p)
	case p.port.MTU.Bytes() < mostBody:
		// peers do not know it when they send first, and what is too long is dropped without a word
		return fmt.Errorf("port %v has an MTU of %d bytes, and %d are needed: for RoCE, ip link set its interface to "+
			"an mtu of 1500; see ibv_devinfo -d %s", p, p.port.MTU.Bytes(), mostBody, p.device)
	}
	return nil
}

// defaultSubnet is the prefix of a subnet that nobody has given another.
var defaultSubnet = [8]byte{0xfe, 0x80}

// subnet is the prefix of an InfiniBand port's own GID, which is the first.
func (p *found) subnet() [8]byte {
	if len(p.gids) == 0 || p.gids[0].Addr == [16]byte{} {
		return defaultSubnet
	}
	return [8]byte(p.gids[0].Addr[:8])
}

// fullMember is the bit of a partition key whose owner reaches all of the partition. Owners of keys
// without it, limited members, reach only those.
const fullMember = 1 << 15

// pkeyIndex finds a partition key by its value. Zero takes the first full membership. The top bit
// of what is wanted does not count; a full membership goes before a limited one.
func (p *found) pkeyIndex(want uint16) (uint16, error) {
	var have []string
	limited := -1
	for i, k := range p.pkeys {
		switch {
		case k&^fullMember == 0:
			continue
		case k&fullMember != 0 && (want == 0 || k&^fullMember == want&^fullMember):
			return uint16(i), nil
		case limited < 0 && k == want&^fullMember:
			limited = i
		}
		have = append(have, fmt.Sprintf("%#04x", k))
	}
	switch {
	case limited >= 0:
		return uint16(limited), nil
	case want != 0:
		return 0, fmt.Errorf("port %v is not in partition %#04x: it has %s; choose one of these with --pkey", p, want,
			strings.Join(have, ", "))
	case p.port.Link == verbs.LinkEthernet || len(have) == 0:
		return 0, nil
	}
	return 0, fmt.Errorf("port %v is no full member of any partition: it has %s; name one with --pkey to try", p,
		strings.Join(have, ", "))
}

// gidOrder lists the entries of a RoCE port's table in the order in which they
// are tried: v2 over IPv4, v2 over IPv6, v1. Wanted alone is
// tried if it is not -1.
func (p *found) gidOrder(want int) ([]int, error) {
	if want >= 0 {
		if want >= len(p.gids) || p.gids[want].Addr == [16]byte{} {
			return nil,
				fmt.Errorf("port %v has no GID at index %d: see /sys/class/infiniband/%s/ports/%d/gids, or leave "+
					"--gid-index out", p, want, p.device, p.number)
		}
		return []int{want}, nil
	}
	var order []int
	for _, fits := range []func(verbs.GID) bool{
		func(g verbs.GID) bool { return g.Type == verbs.GIDRoCEv2 && isIPv4(g.Addr) },
		func(g verbs.GID) bool { return g.Type == verbs.GIDRoCEv2 && !isIPv4(g.Addr) },
		func(g verbs.GID) bool { return g.Type != verbs.GIDRoCEv2 },
	} {
		for i, g := range p.gids {
			if g.Addr != [16]byte{} && fits(g) {
				order = append(order, i)
			}
		}
	}
	if len(order) == 0 {
		return nil, fmt.Errorf("port %v has no GID: its network interface has no address; see ip addr", p)
	}
	return order, nil
}

func isIPv4(addr [16]byte) bool { return [12]byte(addr[:12]) == [12]byte{10: 0xff, 11: 0xff} }

// place makes the address of a port by one of its GIDs; -1 is none, which
// InfiniBand within a subnet does not need.
func (p *found) place(gid int, w request, pkey uint16) local {
	l := local{name: p.String(), port: uint8(p.number), sl: w.sl, pkey: pkey, mtu: p.port.MTU, lid: p.port.LID}
	if int(pkey) < len(p.pkeys) {
		l.key = p.pkeys[pkey]
	}
	if gid >= 0 {
		l.sgid, l.global = uint8(gid), true
	}
	if p.port.Link == verbs.LinkEthernet {
		l.sources = &sources{ask: kernelSource, list: p.sources(gid, w.gid >= 0)}
	} else if !w.path { // a record is of the first LIDs
		l.lmc = min(p.port.LMC, mostLMC)
		l.bits = lane(w.rank, l.lmc)
	}
	lid := l.lid + uint16(l.bits)
	switch {
	case p.port.Link == verbs.LinkEthernet && isIPv4(p.gids[gid].Addr):
		l.tuple.Kind = fabric.ROCE4
		copy(l.tuple.Addr[:], p.gids[gid].Addr[12:])
	case p.port.Link == verbs.LinkEthernet:
		l.tuple.Kind, l.tuple.Addr = fabric.ROCE6, p.gids[gid].Addr
		if p.gids[gid].Type == verbs.GIDRoCEv1 {
			l.tuple.Path = 1 // tells v1 from v2, which do not reach each other
		}
	case gid >= 0:
		l.tuple.Kind, l.tuple.LID, l.tuple.Addr = fabric.IBGID, lid, p.gids[gid].Addr
	case w.path && len(p.gids) > 0, p.subnet() != defaultSubnet:
		// A record is asked for by GID. And a LID of another subnet would be taken for one of this.
		l.tuple.Kind, l.tuple.LID, l.tuple.Addr = fabric.IBGID, lid, p.gids[0].Addr
	default:
		l.tuple.Kind, l.tuple.LID = fabric.IB, lid
	}
	if l.limited() {
		l.tuple.Path = 1 // tells limited members, which do not reach each other
	}
	return l
}

// mostLMC is the most low bits of a LID that a port may have to itself (InfiniBand architecture,
// volume 1, 4.1.3).
const mostLMC = 7
