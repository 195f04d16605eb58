package poll

// Rare says which waits are worth a try that costs something if it brings nothing: each, as long as
// tries bring something, and down to one in 65 where they do not. The zero value begins with a try.
type Rare struct {
	rest int // waits that go without, after the last try that brought nothing
	skip int // of them, how many are left
}

// Due reports whether the wait that begins now is one with a try.
func (r *Rare) Due() bool {
	if r.skip > 0 {
		r.skip--
		return false
	}
	return true
}

// Note hears what a try brought.
func (r *Rare) Note(something bool) {
	if something {
		r.rest /= 2
		return
	}
	r.rest = min(2*r.rest+1, mostRest)
	r.skip = r.rest
}
