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

// scalar reads an item of type t and returns its number. A number of 2^63 or more becomes negative. If the
// items of t are not single numbers, scalar reads nothing and returns ok == false.
func (r *reader) scalar(t Type) (n int64, ok bool) {
	switch t {
	case TypeInt8:
		n = int64(int8(r.octet()))
	case TypeBool, TypeByte, TypeUint8, TypePersistence, TypeScope, TypeRange, TypeProcState:
		n = int64(r.octet())
	case TypeInt16:
		n = r.signed(2)
	case TypeUint16:
		n = int64(r.u16())
	case TypeInt32, TypeStatus:
		n = int64(r.i32())
	case TypeUint32, TypeRank, TypeDirectives:
		n = int64(r.u32())
	case TypeInt64:
		n = r.signed(8)
	case TypeUint64, TypeTime:
		n = int64(r.u64())
	case TypeSize:
		n = int64(r.size())
	case TypeInt:
		n = int64(r.integer())
	case TypeUint: // clients encode a uint as an int
		n = int64(uint32(r.integer()))
	case TypePID:
		n = int64(r.pid())
	default:
		return 0, false
	}
	return n, true
}

// number is how many items there are; a negative number is more than any message has.
func number(n int32) uint64 { return uint64(n) }

// item reads one item of a type. Type 0 is a value without content.
func (r *reader) item(t Type, depth int) {
	if depth > maxDepth {
		r.fail(errDepth)
	}
	if r.err != nil || t == 0 {
		return
	}
	if _, ok := r.scalar(t); ok {
		return
	}
	switch t {
	case TypePointer, TypeCommand:
		r.octet()
	case TypeType, TypeChannel:
		r.u16()
	case TypeString, TypeFloat, TypeDouble: // TypeFloat and TypeDouble are decimal digits
		r.text()
	case TypeTimeval:
		r.signed(8)
		r.signed(8)
	case TypeValue:
		r.item(r.typeCode(), depth+1)
	case TypeProc:
		r.text()
		r.u32()
	case TypeApp:
		r.text()
		r.items(TypeString, number(r.integer()), depth) // arguments
		r.items(TypeString, number(r.i32()), depth)     // environment variables
		r.text()
		r.integer()
		r.items(TypeAttr, r.size(), depth+1)
	case TypeAttr:
		r.text()
		r.u32()
		r.item(TypeValue, depth)
	case TypeFound:
		r.item(TypeProc, depth)
		r.item(TypeKeyValue, depth)
	case TypeBuffer:
		r.octet()
		r.bytes()
	case TypeBytes, TypeCompressedString, TypeCompressedBytes:
		r.bytes()
	case TypeKeyValue:
		r.text()
		r.item(TypeValue, depth)
	case TypeArray:
		of := r.typeCode()
		r.items(of, r.size(), depth+1)
	case TypeQuery:
		r.items(TypeString, number(r.i32()), depth) // keys
		r.items(TypeAttr, r.size(), depth+1)        // qualifiers
	case TypeVariable:
		r.text()
		r.text()
		r.octet()
	default:
		r.fail(fmt.Errorf("an item of type %d, %w", t, errType))
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
