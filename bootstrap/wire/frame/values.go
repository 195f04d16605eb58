package frame

import "slices"

// Values is a list of byte strings.
type Values = List[[]byte, ValueCodec]

// ValueCodec packs one of them.
type ValueCodec struct{}

func (ValueCodec) Encode(w *Encoder, v []byte) { w.Bytes(v) }
func (ValueCodec) Decode(r *Decoder) []byte    { return r.Bytes(MaxSize) }

// NewValues packs values.
func NewValues(values ...[]byte) Values { return ListOf[[]byte, ValueCodec](slices.Values(values)) }

// DecodeValues takes a list of values, each of which must pass check.
func DecodeValues(r *Decoder, check func([]byte) error) Values {
	return DecodeList[[]byte, ValueCodec](r, 1, check)
}
