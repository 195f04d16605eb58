package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where there is no library, --fabric ib says so in one line that names the node, and auto goes on without.
func TestWorldWithoutInfiniBand(t *testing.T) {
	t.Setenv("IBRUN_LIBIBVERBS", "libibverbs-missing.so.1")
	for _, mode := range []string{"--lazy", "--eager"} {
		s := five(mode, "flat")
		s.args = append([]string{"--fabric", "ib"}, s.args...)
		o := worlds(t, s, "ring")
		require.Equal(t, 1, o.code, o.stderr)
		require.Regexp(t, `(?m)^ibrun: rank \d+ on \S+ aborted the job with code 1: ib: (no InfiniBand library: libibverbs-missing|this program was built without InfiniBand).*--fabric udp$`, o.stderr)
		for line := range strings.Lines(o.stderr) {
			require.True(t, strings.HasPrefix(line, "ibrun: "), line)
		}
	}
	s := five("--lazy", "flat")
	s.args = append([]string{"-v", "--fabric", "auto"}, s.args...)
	o := worlds(t, s, "ring")
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stderr, "data does not go by InfiniBand: ")
}
