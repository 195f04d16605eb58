package lazy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTimeOfAllToAll(t *testing.T) {
	took, err := allTime("256 ranks sent 65536 messages of 64 bytes in 1.25s\n")
	require.NoError(t, err)
	require.Equal(t, 1250.0, took)
	_, err = allTime("ibrun: no such host\n")
	require.ErrorContains(t, err, "unexpected output")
}

func TestSizesOfAllToAll(t *testing.T) {
	for _, bad := range [][]string{{"0", "1", "1"}, {"1", "x", "1"}, {"1", "1", "-1"}} {
		require.ErrorContains(t, all(bad, "no-such-launcher", "true"), "invalid number")
	}
	require.ErrorContains(t, all([]string{"1", "1", "1"}, "no-such-launcher", "true"), "no-such-launcher --lazy: ")
}

// Auto is held against the better one of the others, whichever that is.
func TestBoundOfAuto(t *testing.T) {
	var b strings.Builder
	require.NoError(t, times{"--lazy": {4, 4, 9}, "--eager": {2, 1, 2}, "--lazy=auto": {2.5}}.print(&b, "it"))
	require.Equal(t, "it: --lazy          4.00 ms   2.00 of the better one\n"+
		"it: --eager         2.00 ms   1.00 of the better one\n"+
		"it: --lazy=auto     2.50 ms   1.25 of the better one\n"+
		"it: auto beside the better one: 1.25 (bound: at most 1.30): met\n", b.String())
	slow := times{"--lazy": {2}, "--eager": {4}, "--lazy=auto": {4}}
	require.EqualError(t, slow.print(&b, "it"), "missed: it: auto beside the better one")
}
