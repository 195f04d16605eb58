package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// When all is sent, when it is asked for, and when a job may change its mind.
func TestEagerLazyOrLearning(t *testing.T) {
	for _, c := range []struct {
		words        []string
		nodes        uint32
		eager, learn bool
	}{
		{nil, 1, false, false},
		{nil, 2, true, true},
		{nil, 64, true, true},
		{nil, 128, false, true},
		{[]string{"--lazy=auto"}, 128, false, true},
		{[]string{"--lazy"}, 2, false, false},
		{[]string{"--lazy"}, 1000, false, false},
		{[]string{"--eager"}, 1000, true, false},
		{[]string{"--lazy=off"}, 1, true, false},
	} {
		r, err := parse(append(c.words, "-n", "1", "app"))
		require.NoError(t, err)
		got := transport(r, c.nodes, 16*c.nodes)
		require.Equal(t, c.eager, got.Eager, "%v on %d nodes", c.words, c.nodes)
		require.Equal(t, c.learn, got.Learn, "%v on %d nodes", c.words, c.nodes)
		require.NotEmpty(t, got.Why)
	}
}
