package fabric

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
)

// Block is the I-tuples of one node's ranks: what they share once, and a
// number for each. It is the unit of resolution: one answer serves every rank
// of the asking node for every rank of the answered one.
//
//	version:4 kind:4 | flags:8 | epoch:16 | node:32 | first rank:32 | ranks:16 | ttl:8 | path:8
//	base | bitmap of published ranks | number of each published rank | epochs, if they differ
//	count of further bases:8 | those | index of each published rank's base, 0 being the first: only if there are several
type Block struct {
	Node  uint32
	First uint32  // first rank of the node
	TTL   uint8   // hops a datagram may take; 0: the kernel's own default
	Base  Tuple   // what the ranks share; Num is not used
	More  []Tuple // further bases, for ranks at other HCAs: same kind, path and rails; at most MaxBases-1
	Ranks []Entry
}

// Entry is one rank of a block.
type Entry struct {
	Epoch uint16 // 0: it has not published an address
	Num   uint32
	Base  uint8 // 0: the block's Base; i: its More[i-1]
}

// The flags of a block.
const (
	flagPartial = 1 << 0 // some ranks have not published
	flagEpochs  = 1 << 1 // the ranks are of different epochs
	flagBases   = 1 << 2 // there are several bases
)

const (
	blockVersion = 1
	blockHead    = 16
)

// MaxBases is the most bases of one block: ports of one node that ranks use.
const MaxBases = 1 << 8

// ErrBlock is returned for bytes that are not a block in its one form.
var ErrBlock = errors.New("not a node block")

// Tuple returns the address of a rank and its epoch; ok is false if the rank
// is not of this node or has not published.
func (b *Block) Tuple(rank uint32) (t Tuple, epoch uint16, ok bool) {
	i := rank - b.First
	if i >= uint32(len(b.Ranks)) || b.Ranks[i].Epoch == 0 {
		return t, 0, false
	}
	t = b.Base
	if n := b.Ranks[i].Base; n > 0 {
		t = b.More[n-1]
	}
	t.Num = b.Ranks[i].Num
	return t, b.Ranks[i].Epoch, true
}

// Partial says that some rank has not published.
func (b *Block) Partial() bool {
	return slices.ContainsFunc(b.Ranks, func(e Entry) bool { return e.Epoch == 0 })
}

// Epoch is the newest epoch of a published rank.
func (b *Block) Epoch() (newest uint16) {
	for _, e := range b.Ranks {
		newest = max(newest, e.Epoch)
	}
	return newest
}

// mixed reports whether published ranks are of different epochs.
func (b *Block) mixed() bool {
	newest := b.Epoch()
	return slices.ContainsFunc(b.Ranks, func(e Entry) bool { return e.Epoch != 0 && e.Epoch != newest })
}

// Append adds the block's one form.
func (b *Block) Append(dst []byte) []byte {
	flags := byte(0)
	if b.Partial() {
		flags |= flagPartial
	}
	mixed := b.mixed()
	if mixed {
		flags |= flagEpochs
	}
	if len(b.More) > 0 {
		flags |= flagBases
	}
	dst = append(dst, blockVersion<<4|byte(b.Base.Kind), flags)
	dst = binary.BigEndian.AppendUint16(dst, b.Epoch())
	dst = binary.BigEndian.AppendUint32(dst, b.Node)
	dst = binary.BigEndian.AppendUint32(dst, b.First)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(b.Ranks)))
	dst = append(dst, b.TTL, b.Base.Path&1|b.Base.Rails&3<<1)
	dst = b.Base.appendBase(dst)
	at := len(dst)
	dst = append(dst, make([]byte, (len(b.Ranks)+7)/8)...)
	t := b.Base
	for i, e := range b.Ranks {
		if e.Epoch == 0 {
			continue
		}
		dst[at+i/8] |= 1 << (i % 8)
		t.Num = e.Num
		dst = t.appendNum(dst)
	}
	for _, e := range b.Ranks {
		if mixed && e.Epoch != 0 {
			dst = binary.BigEndian.AppendUint16(dst, e.Epoch)
		}
	}
	if len(b.More) == 0 {
		return dst
	}
	dst = append(dst, byte(len(b.More)))
	for _, base := range b.More {
		dst = base.appendBase(dst)
	}
	for _, e := range b.Ranks {
		if e.Epoch != 0 {
			dst = append(dst, e.Base)
		}
	}
	return dst
}

// ParseBlock reads a block that fills all of b. What it returns shares nothing
// with b.
func ParseBlock(b []byte) (*Block, error) {
	blk, ok := parseBlock(b)
	if !ok || !bytes.Equal(blk.Append(nil), b) { // b is not what Append writes
		return nil, ErrBlock
	}
	return blk, nil
}

// parseBlock decodes a block. It checks only lengths, the kind and the indexes of bases. ParseBlock finds all other
// errors by encoding the result again.
func parseBlock(b []byte) (blk *Block, ok bool) {
	if len(b) < blockHead || Kind(b[0]&15) >= kinds {
		return nil, false
	}
	kind, count := Kind(b[0]&15), int(binary.BigEndian.Uint16(b[12:]))
	blk = &Block{
		Node: binary.BigEndian.Uint32(b[4:]), First: binary.BigEndian.Uint32(b[8:]), TTL: b[14],
		Base: Tuple{Kind: kind, Path: b[15] & 1, Rails: b[15] >> 1},
	}
	rest, marks := b[blockHead:], (count+7)/8
	if len(rest) < kind.baseLen()+marks {
		return nil, false
	}
	blk.Ranks = make([]Entry, count)
	rest = blk.Base.parseBase(rest)
	bitmap, rest := rest[:marks], rest[marks:]
	size := kindParts[kind].num
	var published []*Entry
	for i := range blk.Ranks {
		if bitmap[i/8]>>(i%8)&1 == 0 {
			continue
		}
		if len(rest) < size {
			return nil, false
		}
		blk.Ranks[i] = Entry{Epoch: binary.BigEndian.Uint16(b[2:]), Num: number(rest[:size])}
		rest = rest[size:]
		published = append(published, &blk.Ranks[i])
	}
	if b[1]&flagEpochs != 0 {
		if len(rest) < 2*len(published) {
			return nil, false
		}
		for _, e := range published {
			e.Epoch, rest = binary.BigEndian.Uint16(rest), rest[2:]
		}
	}
	if b[1]&flagBases == 0 {
		return blk, true
	}
	if len(rest) == 0 || len(rest) < 1+int(rest[0])*kind.baseLen()+len(published) {
		return nil, false
	}
	blk.More, rest = make([]Tuple, rest[0]), rest[1:]
	for i := range blk.More {
		blk.More[i] = Tuple{Kind: kind, Path: blk.Base.Path, Rails: blk.Base.Rails}
		rest = blk.More[i].parseBase(rest)
	}
	for i, e := range published {
		if e.Base = rest[i]; int(e.Base) > len(blk.More) {
			return nil, false
		}
	}
	return blk, true
}

// Published returns the epoch of a rank in an encoded block, without taking
// the block apart; 0 if it is not there or has not published.
func Published(raw []byte, rank uint32) uint16 {
	if len(raw) < blockHead || Kind(raw[0]&15) >= kinds {
		return 0
	}
	i := rank - binary.BigEndian.Uint32(raw[8:])
	at := blockHead + Kind(raw[0]&15).baseLen() + int(i/8)
	if i >= uint32(binary.BigEndian.Uint16(raw[12:])) || at >= len(raw) || raw[at]>>(i%8)&1 == 0 {
		return 0
	}
	if raw[1]&flagEpochs == 0 {
		return binary.BigEndian.Uint16(raw[2:])
	}
	b, err := ParseBlock(raw)
	if err != nil {
		return 0
	}
	return b.Ranks[i].Epoch
}

// BlockNode returns the node of an encoded block.
func BlockNode(raw []byte) (node uint32, ok bool) {
	if len(raw) < blockHead {
		return 0, false
	}
	return binary.BigEndian.Uint32(raw[4:]), true
}

// BlockRanks returns the ranks of an encoded block.
func BlockRanks(raw []byte) (first, ranks uint32, ok bool) {
	if len(raw) < blockHead {
		return 0, 0, false
	}
	return binary.BigEndian.Uint32(raw[8:]), uint32(binary.BigEndian.Uint16(raw[12:])), true
}

// Older reports whether encoded block a must not replace b, which is of the
// same node: its epoch is older, or it is partial and b of that epoch is not.
func Older(a, b []byte) bool {
	ea, eb := binary.BigEndian.Uint16(a[2:]), binary.BigEndian.Uint16(b[2:])
	return ea < eb || ea == eb && a[1]&flagPartial != 0 && b[1]&flagPartial == 0
}
