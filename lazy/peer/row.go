package peer

import "math"

// row defines the next state and the actions for each combination of one of its states and one of its inputs.
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

// indexed returns a copy of the row of each state and input, indexed by both. In the copies, next is the actual next
// state, never same. states and inputs are the numbers of states and inputs.
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
