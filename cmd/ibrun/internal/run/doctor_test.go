package run

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Lines come with their ranks, in pieces as the sink writes them.
func TestAnswers(t *testing.T) {
	a := &results{}
	for _, text := range []string{"[0] {\"a\": 1}\n[12] x] y\n", "ibrun: strange\n", "[3] z\n"} {
		n, err := a.Write([]byte(text))
		require.NoError(t, err)
		require.Equal(t, len(text), n)
	}
	var got []string
	for _, one := range a.take() {
		require.False(t, one.at.IsZero())
		got = append(got, fmt.Sprintf("%d %s", one.rank, one.line))
	}
	require.Equal(t, []string{"0 {\"a\": 1}\n", "12 x] y\n", "3 z\n"}, got)
}
