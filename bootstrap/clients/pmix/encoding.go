package pmix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// Encoding is how a dialect writes integers. Everything else is the same in all dialects.
type Encoding uint8

const (
	// Flex is of v4 and later. An unsigned number is groups of seven bits, the low group first;
	// bit 7 says that another byte follows. A ninth byte holds eight bits. A signed number is
	// zigzag encoded in 64 bits first.
	Flex Encoding = iota
	// Fixed is of v21 and v3: big-endian, of full width. Types whose width depends on the machine
	// have a type code of 16 bits before the number.
	Fixed
)

// dialects are those that ibrun offers, by the client's name for them.
var dialects = map[string]Encoding{"v21": Fixed, "v3": Fixed, "v4": Flex, "v41": Flex}

var (
	errShort = errors.New("it ends too early")
	errRange = errors.New("a number or a length is out of range")
	errText  = errors.New("a text does not end with its only NUL byte")
	errDepth = errors.New("values are nested too deeply")
	errType  = errors.New("which is not known")
)

// writer appends items to b.
type writer struct {
	b   []byte
	enc Encoding
}

// unsigned writes a number; width is its bytes in the fixed encoding: 2, 4 or 8.
func (w *writer) unsigned(n uint64, width int) {
	if w.enc == Fixed {
		full := binary.BigEndian.AppendUint64(nil, n)
		w.b = append(w.b, full[8-width:]...)
		return
	}
	for i := 0; i < 8 && n >= 1<<7; i++ {
		w.b = append(w.b, byte(n)|1<<7)
		n >>= 7
	}
	w.b = append(w.b, byte(n))
}

func (w *writer) signed(n int64, width int) {
	if w.enc == Flex {
		n = n<<1 ^ n>>63
	}
	w.unsigned(uint64(n), width)
}

func (w *writer) octet(n byte)    { w.b = append(w.b, n) }
func (w *writer) u16(n uint16)    { w.unsigned(uint64(n), 2) }
func (w *writer) u32(n uint32)    { w.unsigned(uint64(n), 4) }
func (w *writer) u64(n uint64)    { w.unsigned(n, 8) }
func (w *writer) i32(n int32)     { w.signed(int64(n), 4) }
func (w *writer) count(n int)     { w.i32(int32(n)) }
func (w *writer) status(s Status) { w.i32(int32(s)) }
func (w *writer) typeCode(t Type) { w.u16(uint16(t)) }
func (w *writer) bytes(b []byte)  { w.size(uint64(len(b))); w.b = append(w.b, b...) }

func (w *writer) bool(b bool) {
	if b {
		w.octet(1)
	} else {
		w.octet(0)
	}
}

// machine writes the code of a type that takes the place of one that depends on the machine.
func (w *writer) machine(t Type) {
	if w.enc == Fixed {
		w.typeCode(t)
	}
}

func (w *writer) size(n uint64)   { w.machine(TypeUint64); w.u64(n) }
func (w *writer) integer(n int32) { w.machine(TypeInt32); w.i32(n) }

// pid has a type code in both encodings.
func (w *writer) pid(n uint32) { w.typeCode(TypeUint32); w.u32(n) }

// text writes a string with its NUL byte.
func (w *writer) text(s string) {
	w.i32(int32(len(s) + 1))
	w.b = append(append(w.b, s...), 0)
}

// reader reads items from b. After an error it reads zeros. If out is set, it gets a copy of all
// that is read, in its own encoding.
type reader struct {
	b   []byte
	enc Encoding
	out *writer
	err error // the first
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail(errShort)
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) octet() byte {
	n := r.byte()
	if w := r.copy(); w != nil {
		w.octet(n)
	}
	return n
}

// copy returns where a copy of what was read goes; nil: nowhere.
func (r *reader) copy() *writer {
	if r.err != nil {
		return nil
	}
	return r.out
}

func (r *reader) byte() byte {
	if b := r.take(1); r.err == nil {
		return b[0]
	}
	return 0
}

// groups reads an unsigned number of the flexible encoding.
func (r *reader) groups() (n uint64) {
	for i := range 8 {
		b := r.byte()
		n |= uint64(b&0x7f) << (7 * i)
		if b < 1<<7 {
			return n
		}
	}
	return n | uint64(r.byte())<<56
}

// wide reads an unsigned number of the fixed encoding.
func (r *reader) wide(width int) (n uint64) {
	for _, b := range r.take(uint64(width)) {
		n = n<<8 | uint64(b)
	}
	return n
}

// bareUnsigned reads a number without a copy; width is its bytes in the fixed encoding: 2, 4 or 8.
func (r *reader) bareUnsigned(width int) (n uint64) {
	if r.enc == Fixed {
		return r.wide(width)
	}
	if n = r.groups(); bits.Len64(n) > 8*width {
		r.fail(errRange)
		return 0
	}
	return n
}

func (r *reader) bareSigned(width int) (n int64) {
	shift := 64 - 8*width
	if r.enc == Fixed {
		return int64(r.wide(width)<<shift) >> shift
	}
	bare := r.groups()
	if n = int64(bare>>1) ^ -int64(bare&1); n<<shift>>shift != n {
		r.fail(errRange)
		return 0
	}
	return n
}

func (r *reader) unsigned(width int) uint64 {
	n := r.bareUnsigned(width)
	if w := r.copy(); w != nil {
		w.unsigned(n, width)
	}
	return n
}

func (r *reader) signed(width int) int64 {
	n := r.bareSigned(width)
	if w := r.copy(); w != nil {
		w.signed(n, width)
	}
	return n
}

func (r *reader) u16() uint16    { return uint16(r.unsigned(2)) }
func (r *reader) u32() uint32    { return uint32(r.unsigned(4)) }
func (r *reader) u64() uint64    { return r.unsigned(8) }
func (r *reader) i32() int32     { return int32(r.signed(4)) }
func (r *reader) typeCode() Type { return Type(r.u16()) }
func (r *reader) status() Status { return Status(r.i32()) }

// count reads the number of items that precedes each run of items at the top level of a message.
func (r *reader) count(want int) {
	if n := r.i32(); r.err == nil && int(n) != want {
		r.fail(fmt.Errorf("a run of %d items instead of %d", n, want))
	}
}

// coded reads the code of an integer type, which the sender chooses, and then a number of that type.
// It does not append them to r.out. A number of 2^63 or more becomes negative.
func (r *reader) coded() int64 {
	t := Type(r.bareUnsigned(2))
	if t < TypeInt8 || t > TypeUint64 || t == TypeUint {
		r.fail(fmt.Errorf("a number of type %d", t))
		return 0
	}
	bare := reader{b: r.b, enc: r.enc, err: r.err}
	n, _ := bare.scalar(t)
	r.b, r.err = bare.b, bare.err
	return n
}

func (r *reader) size() (n uint64) {
	if r.enc == Fixed {
		n = uint64(r.coded())
	} else {
		n = r.bareUnsigned(8)
	}
	if w := r.copy(); w != nil {
		w.size(n)
	}
	return n
}

func (r *reader) integer() int32 {
	n := int64(0)
	if r.enc == Fixed {
		n = r.coded()
	} else {
		n = r.bareSigned(4)
	}
	if n != int64(int32(n)) {
		r.fail(errRange)
		return 0
	}
	if w := r.copy(); w != nil {
		w.integer(int32(n))
	}
	return int32(n)
}

func (r *reader) pid() uint32 {
	n := r.coded()
	if n != int64(uint32(n)) {
		r.fail(errRange)
		return 0
	}
	if w := r.copy(); w != nil {
		w.pid(uint32(n))
	}
	return uint32(n)
}

// opaque reads n bytes that have no meaning here.
func (r *reader) opaque(n uint64) []byte {
	b := r.take(n)
	if w := r.copy(); w != nil {
		w.b = append(w.b, b...)
	}
	return b
}

func (r *reader) bytes() []byte { return r.opaque(r.size()) }

// text reads a string without its NUL byte. A null pointer of the client's is an empty one.
func (r *reader) text() []byte {
	n := r.i32()
	if n < 0 {
		r.fail(errRange)
	}
	b := r.opaque(uint64(max(n, 0)))
	if len(b) == 0 {
		return nil
	}
	if bytes.IndexByte(b, 0) != len(b)-1 {
		r.fail(errText)
		return nil
	}
	return b[:len(b)-1]
}
