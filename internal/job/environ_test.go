package job

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLookup(t *testing.T) {
	env := []string{"A=1", "AB=2", "A=3=4", "EMPTY=0", "EMPTY="}
	value, ok := LookupVariable(env, "A")
	require.True(t, ok)
	require.Equal(t, "3=4", value, "the last one counts")
	_, ok = LookupVariable(env, "EMPTY")
	require.False(t, ok, "an empty one is not set")
	_, ok = LookupVariable(env, "B")
	require.False(t, ok)
}
