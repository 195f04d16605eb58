package pmix

import "iter"

// item is a type that lists hold. The methods of the zero value describe the type.
type item[T any] interface {
	code() Type // of its layout
	read(*reader) T
	write(*writer)
}

// List is some items as they came in a message, or as ListOf packed them. It shares the bytes of
// its message, so a long list takes no more memory than the message.
type List[T item[T]] struct {
	n       int
	enc     Encoding
	counted bool // each item has a count of its own
	content []byte
}

// ListOf packs items.
func ListOf[T item[T]](items ...T) List[T] {
	var w writer
	for _, i := range items {
		i.write(&w)
	}
	return List[T]{n: len(items), content: w.b}
}

// Len is the number of items.
func (l List[T]) Len() int { return l.n }

// All yields the items in their order.
func (l List[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		var zero T
		r := reader{b: l.content, enc: l.enc}
		for range l.n {
			if l.counted {
				r.i32()
			}
			if !yield(zero.read(&r)) {
				return
			}
		}
	}
}

// readList reads n items that follow each other.
func readList[T item[T]](r *reader, n uint64) List[T] {
	var zero T
	from := r.b
	r.items(zero.code(), n, 1)
	return taken[T](r, from, n, false)
}

// readCounted reads n items with a count each; n < 0 means all there are.
func readCounted[T item[T]](r *reader, n int) List[T] {
	var zero T
	from, done := r.b, 0
	for ; r.err == nil && (done < n || n < 0 && len(r.b) > 0); done++ {
		r.count(1)
		r.item(zero.code(), 1)
	}
	return taken[T](r, from, uint64(done), true)
}

// taken is a list of n items that began at from; an empty one after an error.
func taken[T item[T]](r *reader, from []byte, n uint64, counted bool) List[T] {
	if r.err != nil || n == 0 {
		return List[T]{}
	}
	return List[T]{int(n), r.enc, counted, from[:len(from)-len(r.b)]}
}

// writeItems writes a list without a count.
func writeItems[T item[T]](w *writer, l List[T]) {
	var zero T
	if l.counted { // lists of requests are not sent back but by tests
		for i := range l.All() {
			i.write(w)
		}
		return
	}
	w.convert(l.enc, l.content, func(r *reader) { r.items(zero.code(), uint64(l.n), 1) })
}

func (Text) code() Type          { return TypeString }
func (Text) read(r *reader) Text { return Text(r.text()) }
func (t Text) write(w *writer)   { w.text(string(t)) }

func (Status) code() Type            { return TypeStatus }
func (Status) read(r *reader) Status { return r.status() }
func (s Status) write(w *writer)     { w.i32(int32(s)) }

func (Proc) code() Type          { return TypeProc }
func (Proc) read(r *reader) Proc { return Proc{string(r.text()), Rank(r.u32())} }
func (p Proc) write(w *writer) {
	w.text(p.Namespace)
	w.u32(uint32(p.Rank))
}

func (Attr) code() Type          { return TypeAttr }
func (Attr) read(r *reader) Attr { return Attr{string(r.text()), r.u32(), readValue(r)} }
func (a Attr) write(w *writer) {
	w.text(a.Key)
	w.u32(a.Flags)
	a.Value.write(w)
}

func (App) code() Type { return TypeApp }
func (App) read(r *reader) App {
	return App{
		Command: string(r.text()),
		Argv:    readList[Text](r, number(r.integer())), Env: readList[Text](r, number(r.i32())),
		Dir: string(r.text()), Ranks: r.integer(), Attrs: readList[Attr](r, r.size()),
	}
}

func (a App) write(w *writer) {
	w.text(a.Command)
	w.integer(int32(a.Argv.n))
	writeItems(w, a.Argv)
	w.i32(int32(a.Env.n))
	writeItems(w, a.Env)
	w.text(a.Dir)
	w.integer(a.Ranks)
	w.size(uint64(a.Attrs.n))
	writeItems(w, a.Attrs)
}

func (Question) code() Type { return TypeQuery }
func (Question) read(r *reader) Question {
	return Question{Keys: readList[Text](r, number(r.i32())), Qualifiers: readList[Attr](r, r.size())}
}

func (q Question) write(w *writer) {
	w.i32(int32(q.Keys.n))
	writeItems(w, q.Keys)
	w.size(uint64(q.Qualifiers.n))
	writeItems(w, q.Qualifiers)
}

func (Found) code() Type { return TypeFound }
func (Found) read(r *reader) Found {
	return Found{Proc{}.read(r), string(r.text()), readValue(r)}
}

func (f Found) write(w *writer) {
	f.Of.write(w)
	w.text(f.Key)
	f.Value.write(w)
}
