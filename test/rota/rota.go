// Package rota says which third of the cases of a test a run plays, for tests whose cases take
// turns because all of them take too long for every commit. It decides nothing else: a test that
// has no turn plays all.
package rota

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Variable names the turn of a run, a number. CI takes that of the commit.
const Variable = "IBRUN_TEST_TURN"

// Turn is the turn of this run, if it has one; the run's log says which.
func Turn(t testing.TB) (turn uint64, given bool) {
	t.Helper()
	text := os.Getenv(Variable)
	if text == "" {
		return 0, false
	}
	turn, err := strconv.ParseUint(text, 10, 32)
	require.NoError(t, err, Variable)
	t.Logf("%s=%d", Variable, turn)
	return turn, true
}

// Third are the cases of a turn, in their order. Three turns in a row from a multiple of three play
// each case once, in other companies each time; of fewer than three cases some turn plays none.
func Third[T any](turn uint64, cases []T) (chosen []T) {
	of := make([]uint64, len(cases))
	for i, at := range rand.New(rand.NewPCG(turn/3, 16)).Perm(len(cases)) {
		of[at] = uint64(i) % 3
	}
	for i, c := range cases {
		if of[i] == turn%3 {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// Chosen are the cases of this run: a third where it has a turn, else all.
func Chosen[T any](t testing.TB, cases []T) []T {
	t.Helper()
	if turn, given := Turn(t); given {
		return Third(turn, cases)
	}
	return cases
}
