package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// Kind says what an I-tuple is an address of.
type Kind uint8

// The kinds of I-tuple. The numbers are on the wire; docs/dev/protocol.md.
const (
	ETH4  Kind = iota // IPv4 address and UDP port
	ETH6              // IPv6 address and UDP port
	IB                // LID and QPN, one subnet
	ROCE4             // RoCE v2 over IPv4: address and QPN
	ROCE6             // RoCE over IPv6 or v1: GID and QPN
	IBGID             // LID, subnet prefix, port GUID and QPN
	NONE              // no address: a rank that talks to nobody off its node
	kinds
)

// kindParts is the length in bytes of LID, address and number of each kind.
var kindParts = [kinds]struct {
	name           string
	lid, addr, num int
}{
	ETH4: {"eth4", 0, 4, 2}, ETH6: {"eth6", 0, 16, 2}, IB: {"ib", 2, 0, 3}, ROCE4: {"roce4", 0, 4, 3},
	ROCE6: {"roce6", 0, 16, 3}, IBGID: {"ibgid", 2, 16, 3}, NONE: {"none", 0, 0, 0},
}

func (k Kind) String() string {
	if k >= kinds {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kindParts[k].name
}

// Ethernet reports whether a kind is an address of a UDP endpoint.
func (k Kind) Ethernet() bool { return k == ETH4 || k == ETH6 }

// baseLen is the length of what all ranks of a node share.
func (k Kind) baseLen() int { return kindParts[k].lid + kindParts[k].addr }

// tupleVersion is the version this build writes and the only one it reads.
const tupleVersion = 0

// MaxTuple is the length of the longest I-tuple in bytes.
const MaxTuple = 22

// Tuple is an I-tuple: where one rank is reached. It is comparable.
type Tuple struct {
	Kind  Kind
	Rails uint8    // further rails of this rank, 0 to 3
	Path  uint8    // path bit of the LID mask, 0 or 1
	LID   uint16   // IB, IBGID
	Addr  [16]byte // IPv4 in the first four, IPv6, GID, or subnet prefix and GUID
	Num   uint32   // UDP port (16 bits) or QPN (24 bits)
}

// ErrTuple is returned for bytes that are not an I-tuple of this version.
var ErrTuple = errors.New("not an I-tuple")

// Ethernet makes the I-tuple of a UDP endpoint.
func Ethernet(a netip.AddrPort) Tuple {
	ip := a.Addr().Unmap()
	t := Tuple{Kind: ETH6, Num: uint32(a.Port())}
	if ip.Is4() {
		t.Kind = ETH4
	}
	copy(t.Addr[:], ip.AsSlice())
	return t
}

// AddrPort is the endpoint of an ETH4 or ETH6 tuple; the zero value for others.
func (t Tuple) AddrPort() netip.AddrPort {
	switch t.Kind {
	case ETH4:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(t.Addr[:4])), uint16(t.Num))
	case ETH6:
		return netip.AddrPortFrom(netip.AddrFrom16(t.Addr), uint16(t.Num))
	}
	return netip.AddrPort{}
}

// Append adds the standalone form: the head byte kind:3 rails:2 path:1
// version:2, then LID, address and number, big-endian.
func (t Tuple) Append(b []byte) []byte {
	b = append(b, byte(t.Kind)<<5|t.Rails&3<<3|t.Path&1<<2|tupleVersion)
	return t.appendNum(t.appendBase(b))
}

func (t Tuple) appendBase(b []byte) []byte {
	p := kindParts[t.Kind]
	if p.lid > 0 {
		b = binary.BigEndian.AppendUint16(b, t.LID)
	}
	return append(b, t.Addr[:p.addr]...)
}

func (t Tuple) appendNum(b []byte) []byte {
	switch kindParts[t.Kind].num {
	case 2:
		return binary.BigEndian.AppendUint16(b, uint16(t.Num))
	case 3:
		return append(b, byte(t.Num>>16), byte(t.Num>>8), byte(t.Num))
	}
	return b
}

// ParseTuple reads the standalone form from the front of b and returns its length.
func ParseTuple(b []byte) (Tuple, int, error) {
	if len(b) == 0 || b[0]&3 != tupleVersion || Kind(b[0]>>5) >= kinds {
		return Tuple{}, 0, ErrTuple
	}
	t := Tuple{Kind: Kind(b[0] >> 5), Rails: b[0] >> 3 & 3, Path: b[0] >> 2 & 1}
	size := 1 + t.Kind.baseLen() + kindParts[t.Kind].num
	if len(b) < size {
		return Tuple{}, 0, ErrTuple
	}
	rest := t.parseBase(b[1:])
	t.Num = number(rest[:kindParts[t.Kind].num])
	return t, size, nil
}

func (t *Tuple) parseBase(b []byte) (rest []byte) {
	p := kindParts[t.Kind]
	if p.lid > 0 {
		t.LID = binary.BigEndian.Uint16(b)
	}
	copy(t.Addr[:p.addr], b[p.lid:])
	return b[p.lid+p.addr:]
}

// number reads a big-endian number of up to four bytes.
func number(b []byte) (n uint32) {
	for _, c := range b {
		n = n<<8 | uint32(c)
	}
	return n
}

// String shows the tuple as users write such addresses.
func (t Tuple) String() string {
	switch t.Kind {
	case ETH4, ETH6:
		return t.AddrPort().String()
	case IB:
		return fmt.Sprintf("lid %d qpn %d", t.LID, t.Num)
	case ROCE4:
		return fmt.Sprintf("%v qpn %d", netip.AddrFrom4([4]byte(t.Addr[:4])), t.Num)
	case ROCE6, IBGID:
		return fmt.Sprintf("lid %d gid %v qpn %d", t.LID, netip.AddrFrom16(t.Addr), t.Num)
	}
	return t.Kind.String()
}
