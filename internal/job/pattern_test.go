package job

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExpand(t *testing.T) {
	of := func(letter byte, width int) (string, bool) {
		return Padded(7, width), letter == 'r' || letter == 'z'
	}
	for pattern, want := range map[string]string{
		"": "", "plain": "plain", "%r": "7", "a%rb%3r": "a7b007", "%%r": "%r", "%%%r%%": "%7%", "%0r": "7", "%zz": "7z",
		"%20r": "00000000000000000007",
	} {
		got, err := Expand(pattern, of)
		require.NoError(t, err, pattern)
		require.Equal(t, want, got, pattern)
	}
	for pattern, why := range map[string]string{"%": `"%"`, "a%": `"%"`, "%q": `"%q"`, "%3": `"%3"`, "%3%": `"%3%"`,
		"%21r": `"%21`, "%999999999999r": `"%9`} {
		_, err := Expand(pattern, of)
		require.ErrorContains(t, err, why, pattern)
	}
	require.Equal(t, "%4r.a%%b%%x", Fill("%4r.%x%%x", 'x', "a%b"), "the rest stays a pattern")
	require.Equal(t, "rhr", Letters("%r.%h%%t/%4r"))
}
