package lazy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTimeOfAllToAll(t *testing.T) {
	took, err := allTime([]byte("256 ranks sent 65536 messages of 64 bytes in 1.25s\n"), nil)
	require.NoError(t, err)
	require.Equal(t, 1250.0, took)
	_, err = allTime([]byte("ibrun: no such host\n"), nil)
	require.ErrorContains(t, err, "unexpected output")
}

func TestTimeOfFirstMessages(t *testing.T) {
	took, err := firstTime(nil, []byte("ibrun: a word\n"+
		"{\"mode\":\"lazy\",\"first_message_p50_us\":1500}\n"))
	require.NoError(t, err)
	require.Equal(t, 1.5, took)
	_, err = firstTime(nil, []byte("ibrun: a word\n"))
	require.ErrorContains(t, err, "no statistics")
}

func TestSizesOfAllToAll(t *testing.T) {
	for _, bad := range [][]string{{"0", "1", "1", "1"}, {"1", "x", "1", "1"}, {"1", "1", "1", "-1"}} {
		require.ErrorContains(t, all(bad, "no-such-launcher", "true", "true"), "invalid number")
	}
	err := all([]string{"1", "1", "1", "1"}, "no-such-launcher", "true", "true")
	require.ErrorContains(t, err, "no-such-launcher --lazy: ")
}

// Auto is held against the better one of the others, whichever that is.
func TestBoundOfAuto(t *testing.T) {
	var b strings.Builder
	require.NoError(t, times{"--lazy": {4, 4, 9}, "--eager": {2, 1, 2}, "--lazy=auto": {2.4}}.print(&b, "it"))
	require.Equal(t, "it: --lazy          4.00 ms   2.00 of the better one\n"+
		"it: --eager         2.00 ms   1.00 of the better one\n"+
		"it: --lazy=auto     2.40 ms   1.20 of the better one\n"+
		"it: auto beside the better one: 1.20 (bound: at most 1.20): met\n", b.String())
	slow := times{"--lazy": {2}, "--eager": {4}, "--lazy=auto": {2.5}}
	require.EqualError(t, slow.print(&b, "it"), "missed: it: auto beside the better one")
}
