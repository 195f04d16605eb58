package pmix

import "fmt"

// Type is the code of a value's type.
type Type uint16

// The types that clients send, and that replies need.
const (
	TypeBool             Type = 1
	TypeByte             Type = 2
	TypeString           Type = 3
	TypeSize             Type = 4
	TypePID              Type = 5
	TypeInt              Type = 6
	TypeInt8             Type = 7
	TypeInt16            Type = 8
	TypeInt32            Type = 9
	TypeInt64            Type = 10
	TypeUint             Type = 11
	TypeUint8            Type = 12
	TypeUint16           Type = 13
	TypeUint32           Type = 14
	TypeUint64           Type = 15
	TypeFloat            Type = 16
	TypeDouble           Type = 17
	TypeTimeval          Type = 18
	TypeTime             Type = 19
	TypeStatus           Type = 20
	TypeValue            Type = 21
	TypeProc             Type = 22
	TypeApp              Type = 23
	TypeAttr             Type = 24
	TypeFound            Type = 25
	TypeBuffer           Type = 26
	TypeBytes            Type = 27
	TypeKeyValue         Type = 28
	TypePersistence      Type = 30
	TypePointer          Type = 31
	TypeScope            Type = 32
	TypeRange            Type = 33
	TypeCommand          Type = 34
	TypeDirectives       Type = 35
	TypeType             Type = 36
	TypeProcState        Type = 37
	TypeArray            Type = 39
	TypeRank             Type = 40
	TypeQuery            Type = 41
	TypeCompressedString Type = 42
	TypeChannel          Type = 45
	TypeVariable         Type = 46
	TypeCompressedBytes  Type = 59
)

// maxDepth is how deeply values may be nested. Clients need 3: an array in an attribute of a query.
const maxDepth = 8

// layouts say of what parts an item of a type consists, in order. A type that is not listed cannot
// be read or skipped.
var layouts [TypeCompressedBytes + 1][]func(r *reader, depth int)

func init() { // the parts refer to the table
	layouts = [...][]func(r *reader, depth int){
		TypeBool:             {octet},
		TypeByte:             {octet},
		TypeString:           {text},
		TypeSize:             {size},
		TypePID:              {pid},
		TypeInt:              {integer},
		TypeInt8:             {octet},
		TypeInt16:            {i16},
		TypeInt32:            {i32},
		TypeInt64:            {i64},
		TypeUint:             {integer}, // clients write it as an int
		TypeUint8:            {octet},
		TypeUint16:           {u16},
		TypeUint32:           {u32},
		TypeUint64:           {u64},
		TypeFloat:            {text}, // in decimal digits
		TypeDouble:           {text},
		TypeTimeval:          {i64, i64},
		TypeTime:             {u64},
		TypeStatus:           {i32},
		TypeValue:            {content},
		TypeProc:             {text, u32},
		TypeApp:              {text, arguments, variables, text, integer, attrs},
		TypeAttr:             {text, u32, content},
		TypeFound:            {text, u32, text, content},
		TypeBuffer:           {octet, opaque},
		TypeBytes:            {opaque},
		TypeKeyValue:         {text, content},
		TypePersistence:      {octet},
		TypePointer:          {octet},
		TypeScope:            {octet},
		TypeRange:            {octet},
		TypeCommand:          {octet},
		TypeDirectives:       {u32},
		TypeType:             {u16},
		TypeProcState:        {octet},
		TypeArray:            {array},
		TypeRank:             {u32},
		TypeQuery:            {variables, attrs}, // keys, then qualifiers
		TypeCompressedString: {opaque},
		TypeChannel:          {u16},
		TypeVariable:         {text, text, octet},
		TypeCompressedBytes:  {opaque},
	}
}

func octet(r *reader, _ int)   { r.octet() }
func u16(r *reader, _ int)     { r.u16() }
func u32(r *reader, _ int)     { r.u32() }
func u64(r *reader, _ int)     { r.u64() }
func i16(r *reader, _ int)     { r.signed(2) }
func i32(r *reader, _ int)     { r.i32() }
func i64(r *reader, _ int)     { r.signed(8) }
func size(r *reader, _ int)    { r.size() }
func integer(r *reader, _ int) { r.integer() }
func pid(r *reader, _ int)     { r.pid() }
func text(r *reader, _ int)    { r.text() }
func opaque(r *reader, _ int)  { r.bytes() }

// content is a type and an item of it.
func content(r *reader, depth int) { r.item(r.typeCode(), depth+1) }

// array is a type, a number and that many items.
func array(r *reader, depth int) {
	t := r.typeCode()
	r.items(t, r.size(), depth+1)
}

func attrs(r *reader, depth int) { r.items(TypeAttr, r.size(), depth+1) }

// arguments are of a program: their number is an int.
func arguments(r *reader, depth int) { r.items(TypeString, number(r.integer()), depth) }

// variables are of an environment: their number has 32 bits.
func variables(r *reader, depth int) { r.items(TypeString, number(r.i32()), depth) }

// number is how many items there are; a negative number is more than any message has.
func number(n int32) uint64 { return uint64(n) }

// item reads one item of a type. Type 0 is a value without content.
func (r *reader) item(t Type, depth int) {
	var parts []func(r *reader, depth int)
	if int(t) < len(layouts) {
		parts = layouts[t]
	}
	switch {
	case r.err != nil:
	case depth > maxDepth:
		r.fail(errDepth)
	case parts == nil && t != 0:
		r.fail(fmt.Errorf("an item of type %d, %w", t, errType))
	}
	for _, part := range parts {
		if r.err == nil {
			part(r, depth)
		}
	}
}

// items reads n items of a type. Each takes at least one byte, so the time is that of the bytes.
func (r *reader) items(t Type, n uint64, depth int) {
	if n > uint64(len(r.b)) || n > 0 && t == 0 {
		r.fail(errShort)
	}
	for ; n > 0 && r.err == nil; n-- {
		r.item(t, depth)
	}
}
