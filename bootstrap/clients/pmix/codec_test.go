package pmix

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// samples have an item of each type, written by parts.
var samples = map[Type]func(w *writer){
	TypeBool:             func(w *writer) { w.bool(true) },
	TypeByte:             func(w *writer) { w.octet(0xfe) },
	TypeString:           func(w *writer) { w.text("text") },
	TypeSize:             func(w *writer) { w.size(math.MaxUint64) },
	TypePID:              func(w *writer) { w.pid(math.MaxUint32) },
	TypeInt:              func(w *writer) { w.integer(math.MinInt32) },
	TypeInt8:             func(w *writer) { w.octet(0x80) },
	TypeInt16:            func(w *writer) { w.signed(math.MinInt16, 2) },
	TypeInt32:            func(w *writer) { w.i32(-5) },
	TypeInt64:            func(w *writer) { w.signed(math.MinInt64, 8) },
	TypeUint:             func(w *writer) { w.integer(9) },
	TypeUint8:            func(w *writer) { w.octet(200) },
	TypeUint16:           func(w *writer) { w.u16(math.MaxUint16) },
	TypeUint32:           func(w *writer) { w.u32(math.MaxUint32) },
	TypeUint64:           func(w *writer) { w.u64(1<<63 + 7) },
	TypeFloat:            func(w *writer) { w.text("1.500000") },
	TypeDouble:           func(w *writer) { w.text("-0.000001") },
	TypeTimeval:          func(w *writer) { w.signed(-1, 8); w.signed(999999, 8) },
	TypeTime:             func(w *writer) { w.u64(1 << 33) },
	TypeStatus:           func(w *writer) { w.status(NotFound) },
	TypeValue:            func(w *writer) { BytesValue([]byte{1, 2}).write(w) },
	TypeProc:             func(w *writer) { Proc{"ns", RankWildcard}.write(w) },
	TypeApp:              func(w *writer) { app.write(w) },
	TypeAttr:             func(w *writer) { Attr{"key", 2, Uint32Value(7)}.write(w) },
	TypeFound:            func(w *writer) { Found{Proc{"ns", 4}, "key", TextValue("v")}.write(w) },
	TypeBuffer:           func(w *writer) { w.octet(bufferPlain); w.bytes([]byte{1, 2, 3}) },
	TypeBytes:            func(w *writer) { w.bytes(make([]byte, 300)) },
	TypeKeyValue:         func(w *writer) { w.text("key"); SizeValue(8).write(w) },
	TypePersistence:      func(w *writer) { w.octet(byte(PersistApp)) },
	TypePointer:          func(w *writer) { w.octet(1) },
	TypeScope:            func(w *writer) { w.octet(byte(ScopeLocal)) },
	TypeRange:            func(w *writer) { w.octet(byte(RangeGlobal)) },
	TypeCommand:          func(w *writer) { w.octet(byte(cmdGet)) },
	TypeDirectives:       func(w *writer) { w.u32(3) },
	TypeType:             func(w *writer) { w.typeCode(TypeArray) },
	TypeProcState:        func(w *writer) { w.octet(50) },
	TypeArray:            func(w *writer) { w.typeCode(TypeInt16); w.size(2); w.signed(-1, 2); w.signed(300, 2) },
	TypeRank:             func(w *writer) { w.u32(uint32(RankLocalPeers)) },
	TypeQuery:            func(w *writer) { question.write(w) },
	TypeCompressedString: func(w *writer) { w.bytes([]byte{9}) },
	TypeChannel:          func(w *writer) { w.u16(6) },
	TypeVariable:         func(w *writer) { w.text("A"); w.text("b"); w.octet(':') },
	TypeCompressedBytes:  func(w *writer) { w.bytes(nil) },
}

var (
	app = App{
		Command: "/bin/a", Argv: ListOf[Text]("a", "b"), Env: ListOf[Text]("A=b"), Dir: "/d", Ranks: 3,
		Attrs: ListOf(Attr{"pmix.wdir", 1, TextValue("/")}),
	}
	question = Question{Keys: ListOf[Text]("pmix.x"), Qualifiers: ListOf(Attr{"pmix.y", 0, BoolValue(true)})}
)

// everyValue has a value of each type.
func everyValue() (all []Value) {
	for t := range Type(64) {
		if write := samples[t]; write != nil {
			all = append(all, valueOf(t, write))
		}
	}
	return append(all, Value{})
}

// TestLayouts: an item of each type is as long in each encoding as its parts, converts to the other
// encoding and back, and is an error when it is cut anywhere.
func TestLayouts(t *testing.T) {
	for code := Type(1); code <= TypeCompressedBytes; code++ {
		empty := reader{}
		empty.item(code, 1)
		require.Equal(t, samples[code] == nil, errors.Is(empty.err, errType), "type %d", code)
	}
	for code, write := range samples {
		flex, fixed := writer{}, writer{enc: Fixed}
		write(&flex)
		write(&fixed)
		for _, c := range []struct{ from, to writer }{{flex, fixed}, {fixed, flex}, {flex, flex}} {
			out := writer{enc: c.to.enc}
			r := reader{b: c.from.b, enc: c.from.enc, out: &out}
			r.item(code, 1)
			require.NoError(t, r.err, code)
			require.Empty(t, r.b, code)
			require.Equal(t, c.to.b, out.b, code)
			for n := range c.from.b {
				r := reader{b: c.from.b[:n], enc: c.from.enc}
				r.item(code, 1)
				require.Error(t, r.err, "type %d cut at %d", code, n)
			}
		}
		v := valueOf(code, write)
		parsed, err := ParseValue(v.Append(nil))
		require.NoError(t, err)
		require.Equal(t, v, parsed)
	}
	_, err := ParseValue(append(BoolValue(true).Append(nil), 0))
	require.Error(t, err)
	r := reader{b: []byte{1}}
	r.item(200, 1)
	require.ErrorIs(t, r.err, errType)
}

func TestNumbers(t *testing.T) {
	want := map[Type]int64{
		TypeBool: 1, TypeByte: 0xfe, TypeSize: -1, TypePID: math.MaxUint32, TypeInt: math.MinInt32, TypeInt8: -128,
		TypeInt16: math.MinInt16, TypeInt32: -5, TypeInt64: math.MinInt64, TypeUint: 9, TypeUint8: 200,
		TypeUint16: math.MaxUint16, TypeUint32: math.MaxUint32, TypeUint64: math.MinInt64 + 7, TypeTime: 1 << 33,
		TypeStatus: -46, TypePersistence: 3, TypeScope: 1, TypeRange: 5, TypeDirectives: 3, TypeProcState: 50,
		TypeRank: 0xfffffffb,
	}
	for code, write := range samples {
		for _, enc := range []Encoding{Flex, Fixed} {
			w := writer{enc: enc}
			write(&w)
			n, ok := Value{code, enc, w.b}.Number()
			number, known := want[code]
			require.Equal(t, known, ok, code)
			require.Equal(t, number, n, code)
		}
	}
	_, ok := BoolValue(true).Text()
	require.False(t, ok)
	_, ok = valueOf(TypeArray, samples[TypeArray]).Attrs()
	require.False(t, ok)
}

// TestFlex: the lengths at which another byte begins, and numbers that are too large for their
// type.
func TestFlex(t *testing.T) {
	for n, size := range map[uint64]int{
		0: 1, 1<<7 - 1: 1, 1 << 7: 2, 1<<14 - 1: 2, 1 << 14: 3, 1<<56 - 1: 8, 1 << 56: 9, math.MaxUint64: 9,
	} {
		w := writer{}
		w.u64(n)
		require.Len(t, w.b, size)
		r := reader{b: w.b}
		require.Equal(t, n, r.u64())
		require.NoError(t, r.err)
	}
	for name, read := range map[string]func(r *reader){
		"u16": func(r *reader) { r.u16() }, "u32": func(r *reader) { r.u32() },
		"i16": func(r *reader) { r.signed(2) }, "i32": func(r *reader) { r.i32() },
		"int": func(r *reader) { r.integer() },
	} {
		w := writer{}
		w.u64(1 << 32)
		r := reader{b: w.b}
		read(&r)
		require.ErrorIs(t, r.err, errRange, name)
	}
	for _, code := range []Type{
		TypeInt8, TypeUint8, TypeInt16, TypeUint16, TypeInt32, TypeUint32, TypeInt64, TypeUint64,
	} {
		w := writer{enc: Fixed}
		w.typeCode(code)
		samples[code](&w)
		r := reader{b: w.b, enc: Fixed}
		n := r.coded()
		require.NoError(t, r.err)
		want, _ := valueOf(code, samples[code]).Number()
		require.Equal(t, want, n, "the sender chooses the type of a size")
	}
	r := reader{b: []byte{0, 3}, enc: Fixed}
	r.size()
	require.Error(t, r.err)
}

// TestHostile: counts and depths that claim more than there is.
func TestHostile(t *testing.T) {
	for name, write := range map[string]func(w *writer){
		"array of nothing": func(w *writer) { w.typeCode(0); w.size(3); w.b = append(w.b, "1234"...) },
		"array of bools":   func(w *writer) { w.typeCode(TypeBool); w.size(math.MaxUint64); w.octet(1) },
		"negative text":    func(w *writer) { w.typeCode(TypeString); w.size(1); w.i32(-3) },
		"text without NUL": func(w *writer) { w.typeCode(TypeString); w.size(1); w.i32(1); w.octet('a') },
		"text with NUL":    func(w *writer) { w.typeCode(TypeString); w.size(1); w.i32(2); w.octet(0); w.octet(0) },
		"negative argc":    func(w *writer) { w.typeCode(TypeApp); w.size(1); w.text("a"); w.integer(-1) },
		"deep": func(w *writer) {
			for range 40 {
				w.typeCode(TypeArray)
				w.size(1)
			}
		},
	} {
		for _, enc := range []Encoding{Flex, Fixed} {
			w := writer{enc: enc}
			write(&w)
			r := reader{b: w.b, enc: enc}
			r.item(TypeArray, 1)
			require.Error(t, r.err, name)
			if name == "deep" {
				require.ErrorIs(t, r.err, errDepth)
			}
		}
	}
}
