package fabric

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync/atomic"
)

// Envelope is the head of each datagram.
type Envelope struct {
	Kind               uint8 // of the body; lazy/peer numbers them
	Src, Dst           uint32
	SrcEpoch, DstEpoch uint16
	Gen                uint32
	Path               uint16 // changes of the pair's network so far; odd: it goes by the second one
}

// Overhead is what sealing adds to a body, in bytes.
const Overhead = headLen + tagLen

const (
	headLen         = 29
	tagLen          = 16
	envelopeVersion = 1
)

// What a datagram is dropped for. None of them is ever answered.
var (
	ErrForeign = errors.New("datagram of another job or program")
	ErrForged  = errors.New("datagram with a wrong seal")
	ErrStray   = errors.New("datagram for another rank")
)

// Key is what the ranks of a job share. It never leaves memory and frames.
type Key [32]byte

// DeriveKey makes the ranks' key from the job's secret, so that a rank never
// holds the secret itself.
func DeriveKey(secret [32]byte) (k Key) {
	copy(k[:], derive(secret, "ibrun datagrams", len(k)))
	return k
}

// QKey is what InfiniBand puts into each datagram to keep jobs apart. It goes
// over the wire as it is, so it protects nothing.
func (k Key) QKey() uint32 { return binary.BigEndian.Uint32(derive(k, "ibrun queue key", 4)) }

// ControlKey is what InfiniBand's own datagrams, which make streams, are sealed with.
func (k Key) ControlKey() [32]byte { return [32]byte(derive(k, "ibrun queue pairs", 32)) }

func derive(from [32]byte, purpose string, size int) []byte {
	b, err := hkdf.Expand(sha256.New, from[:], purpose, size)
	if err != nil {
		panic(err) // only for lengths that no caller can ask for
	}
	return b
}

// Seal signs and checks the datagrams of one rank: AES-GMAC (NIST SP 800-38D)
// over head and body, with a nonce that never repeats under the job's key:
// source rank, source epoch, a count of 48 bits. The body is not encrypted.
type Seal struct {
	aead  cipher.AEAD
	tag   uint32
	rank  uint32
	epoch uint16
	count atomic.Uint64
}

// NewSeal makes the seal of one rank in one epoch.
func NewSeal(key Key, rank uint32, epoch uint16) *Seal {
	block, err := aes.NewCipher(key[:16])
	if err != nil {
		panic(err) // only for other key lengths
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // only for other block lengths
	}
	return &Seal{aead: aead, tag: binary.BigEndian.Uint32(key[16:]), rank: rank, epoch: epoch}
}

// Append adds a sealed datagram to dst. Src and SrcEpoch are the seal's own.
func (s *Seal) Append(dst []byte, e Envelope, body []byte) []byte {
	at := len(dst)
	dst = append(dst, envelopeVersion<<4|e.Kind&15)
	dst = binary.BigEndian.AppendUint32(dst, s.tag)
	dst = binary.BigEndian.AppendUint32(dst, s.rank)
	dst = binary.BigEndian.AppendUint16(dst, s.epoch)
	dst = binary.BigEndian.AppendUint64(dst, s.count.Add(1)<<16|uint64(e.DstEpoch))
	dst = binary.BigEndian.AppendUint32(dst, e.Dst)
	dst = binary.BigEndian.AppendUint32(dst, e.Gen)
	dst = binary.BigEndian.AppendUint16(dst, e.Path)
	dst = append(dst, body...)
	return s.aead.Seal(dst, nonceOf(dst[at:]), nil, dst[at:])
}

// nonceOf is source rank, source epoch and count, which lie side by side.
func nonceOf(datagram []byte) []byte { return datagram[5:17] }

// Open checks a datagram and takes it apart; body is part of it. It allocates
// nothing.
func (s *Seal) Open(b []byte) (e Envelope, body []byte, err error) {
	if len(b) < Overhead || b[0]>>4 != envelopeVersion || binary.BigEndian.Uint32(b[1:]) != s.tag {
		return e, nil, ErrForeign
	}
	signed, tag := b[:len(b)-tagLen], b[len(b)-tagLen:]
	if _, err := s.aead.Open(nil, nonceOf(b), tag, signed); err != nil {
		return e, nil, ErrForged
	}
	e = Envelope{
		Kind: b[0] & 15, Src: binary.BigEndian.Uint32(b[5:]), SrcEpoch: binary.BigEndian.Uint16(b[9:]),
		DstEpoch: binary.BigEndian.Uint16(b[17:]), Dst: binary.BigEndian.Uint32(b[19:]),
		Gen: binary.BigEndian.Uint32(b[23:]), Path: binary.BigEndian.Uint16(b[27:]),
	}
	if e.Dst != s.rank {
		return e, nil, ErrStray
	}
	return e, signed[headLen:], nil
}
