package peer

import "math"

// row is an entry of a state table. In each of the given states, each of the given inputs leads to the same next state
// and causes the same actions.
type row[S, I ~uint8, A any] struct {
	states  []S
	inputs  []I
	next    S // same means that the state does not change
	actions []A
	why     string // reason of the row, for the generated documents; may be empty
}

// same is the value of row.next if the state does not change.
const same = math.MaxUint8

func in[S any](s ...S) []S { return s }
func on[I any](i ...I) []I { return i }

// indexed returns a matrix x in which x[s][i] is the row for the state s and the input i, or nil if rows has none. Each
// is a copy with this state and this input only. Its next is the actual next state, never same. The parameters states
// and inputs are the dimensions of the matrix.
func indexed[S, I ~uint8, A any](rows []row[S, I, A], states S, inputs I) [][]*row[S, I, A] {
	x := make([][]*row[S, I, A], states)
	for s := range x {
		x[s] = make([]*row[S, I, A], inputs)
	}
	for _, r := range rows {
		for _, s := range r.states {
			for _, i := range r.inputs {
				one := r
				one.states, one.inputs = in(s), on(i)
				if r.next == same {
					one.next = s
				}
				x[s][i] = &one
			}
		}
	}
	return x
}
