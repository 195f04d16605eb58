package pmix

import "iter"

// Pairs are keys and values as a client committed them. They go to other clients as they came,
// unless these use another encoding. The bytes are shared and never changed.
type Pairs struct {
	Encoding Encoding
	Bytes    []byte // pairs, each after a count of 1
}

// All yields the pairs, up to the first with a type that is not known.
func (p Pairs) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for r := (reader{b: p.Bytes, enc: p.Encoding}); len(r.b) > 0; {
			r.count(1)
			key, v := string(r.text()), readValue(&r)
			if r.err != nil || !yield(key, v) {
				return
			}
		}
	}
}

// Check returns why not all pairs can be read. Such pairs are of use to clients of their own
// encoding.
func (p Pairs) Check() error { return p.copyTo(nil) }

// Update adds newer pairs, which replace those of the same keys. Pairs that cannot be read are
// added as they are; those that cannot be converted either take the place of all older ones.
func (p Pairs) Update(newer Pairs) Pairs {
	if len(p.Bytes) == 0 {
		return newer
	}
	added, err := newer.Convert(p.Encoding)
	if err != nil {
		return newer
	}
	replaced := map[string]bool{}
	for key := range added.All() {
		replaced[key] = true
	}
	kept := make([]byte, 0, len(p.Bytes)+len(added.Bytes))
	r := reader{b: p.Bytes, enc: p.Encoding}
	for len(r.b) > 0 {
		from := r.b
		r.count(1)
		key := r.text()
		readValue(&r)
		if r.err != nil {
			kept = append(kept, from...)
			break
		}
		if !replaced[string(key)] {
			kept = append(kept, from[:len(from)-len(r.b)]...)
		}
	}
	return Pairs{p.Encoding, append(kept, added.Bytes...)}
}

// Convert writes the pairs in another encoding, and returns why it cannot. Numbers keep their
// values, all else keeps its bytes.
func (p Pairs) Convert(to Encoding) (Pairs, error) {
	if p.Encoding == to {
		return p, nil
	}
	w := writer{enc: to}
	err := p.copyTo(&w)
	return Pairs{to, w.b}, err
}

func (p Pairs) copyTo(w *writer) error {
	r := reader{b: p.Bytes, enc: p.Encoding, out: w}
	for len(r.b) > 0 {
		r.count(1)
		r.item(TypeKeyValue, 1)
	}
	return r.err
}

// pair writes a pair with its count.
func (w *writer) pair(key string, v Value) {
	w.count(1)
	w.text(key)
	v.write(w)
}

// PairsOf makes pairs; keys and values alternate.
func PairsOf(attrs ...Attr) Pairs {
	var w writer
	for _, a := range attrs {
		w.pair(a.Key, a.Value)
	}
	return Pairs{Bytes: w.b}
}
