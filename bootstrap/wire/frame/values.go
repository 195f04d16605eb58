package frame

// Values is a list of byte strings.
type Values = List[[]byte, ValueCodec]

// ValueCodec packs one of them.
type ValueCodec struct{}

func (ValueCodec) Encode(w *Encoder, v []byte) { w.Bytes(v) }
func (ValueCodec) Decode(r *Decoder) []byte    { return r.Bytes() }

// NewValues packs values.
func NewValues(values ...[]byte) Values { return NewList[[]byte, ValueCodec](values...) }
