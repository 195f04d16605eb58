package pmix

// Rank is a rank of a namespace, or one of the names for several.
type Rank uint32

// Names for ranks.
const (
	RankWildcard   Rank = 0xfffffffe // all of the namespace
	RankLocalPeers Rank = 0xfffffffb
)

// Proc is a process, or several of one namespace.
type Proc struct {
	Namespace string
	Rank      Rank
}

// Attr is an attribute: a key and a value that qualify a request or an answer.
type Attr struct {
	Key   string
	Flags uint32 // 1: required, 2: the last one of an array
	Value Value
}

// App is one program of a Spawn.
type App struct {
	Command   string
	Argv, Env List[Text] // Env has NAME=VALUE
	Dir       string     // working directory; empty: none is wanted
	Ranks     int32
	Attrs     List[Attr]
}

// Question is one part of a Query.
type Question struct {
	Keys       List[Text]
	Qualifiers List[Attr]
}

// Found is a value that a Lookup has found.
type Found struct {
	Of    Proc // the publisher
	Key   string
	Value Value
}

// Text is a string in a List.
type Text string

// Value is a value as a client sent it, in the client's encoding, or one of this package's making,
// in the flexible encoding. It shares the bytes of its message and is never changed.
type Value struct {
	Type    Type
	enc     Encoding
	content []byte // checked
}

// valueOf makes a value in the flexible encoding.
func valueOf(t Type, write func(*writer)) Value {
	var w writer
	write(&w)
	return Value{Type: t, content: w.b}
}

// TextValue and its like make values.
func TextValue(s string) Value   { return valueOf(TypeString, func(w *writer) { w.text(s) }) }
func BoolValue(b bool) Value     { return valueOf(TypeBool, func(w *writer) { w.bool(b) }) }
func BytesValue(b []byte) Value  { return valueOf(TypeBytes, func(w *writer) { w.bytes(b) }) }
func IntValue(n int32) Value     { return valueOf(TypeInt, func(w *writer) { w.integer(n) }) }
func SizeValue(n uint64) Value   { return valueOf(TypeSize, func(w *writer) { w.size(n) }) }
func Uint16Value(n uint16) Value { return valueOf(TypeUint16, func(w *writer) { w.u16(n) }) }
func Uint32Value(n uint32) Value { return valueOf(TypeUint32, func(w *writer) { w.u32(n) }) }
func RankValue(n Rank) Value     { return valueOf(TypeRank, func(w *writer) { w.u32(uint32(n)) }) }
func ProcValue(p Proc) Value     { return valueOf(TypeProc, p.write) }

// AttrsValue makes an array of attributes.
func AttrsValue(attrs ...Attr) Value {
	return valueOf(TypeArray, func(w *writer) {
		w.typeCode(TypeAttr)
		w.size(uint64(len(attrs)))
		for _, a := range attrs {
			a.write(w)
		}
	})
}

// Append appends the value in the form that ParseValue takes, which no dialect changes.
func (v Value) Append(b []byte) []byte {
	w := writer{b: b}
	v.write(&w)
	return w.b
}

// ParseValue takes the bytes of Append. The value shares them.
func ParseValue(b []byte) (Value, error) {
	r := reader{b: b}
	v := readValue(&r)
	if len(r.b) > 0 {
		r.fail(errRange)
	}
	return v, r.err
}

// readValue reads a type and a content of it.
func readValue(r *reader) Value {
	t, enc, from := r.typeCode(), r.enc, r.b
	r.item(t, 1)
	return Value{t, enc, from[:len(from)-len(r.b)]}
}

func (v Value) write(w *writer) {
	w.typeCode(v.Type)
	w.convert(v.enc, v.content, func(r *reader) { r.item(v.Type, 1) })
}

// convert writes checked bytes of an encoding; read is what they were checked by.
func (w *writer) convert(enc Encoding, b []byte, read func(*reader)) {
	if enc == w.enc {
		w.b = append(w.b, b...)
		return
	}
	read(&reader{b: b, enc: enc, out: w})
}

func (v Value) reader() *reader { return &reader{b: v.content, enc: v.enc} }

// Bool is the value of a flag, which some clients write as a number.
func (v Value) Bool() bool {
	n, _ := v.Number()
	return n != 0
}

// Text is the value of a string; ok is false for other types.
func (v Value) Text() (s string, ok bool) {
	if v.Type != TypeString {
		return "", false
	}
	return string(v.reader().text()), true
}

// Number is the value of any integer type, a flag, a rank, a status, a range or a persistence; ok
// is false for other types. Values from 2^63 on are negative.
func (v Value) Number() (n int64, ok bool) { return v.reader().scalar(v.Type) }

// Attrs is the value of an array of attributes; ok is false for other types.
func (v Value) Attrs() (l List[Attr], ok bool) {
	r := v.reader()
	if v.Type != TypeArray || r.typeCode() != TypeAttr {
		return l, false
	}
	return readList[Attr](r, r.size()), true
}
