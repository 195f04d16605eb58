package e2e

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/product"
)

// Where there is no library, --fabric ib says so in one line that names the node, and auto goes on
// without.
func TestWorldWithoutInfiniBand(t *testing.T) {
	t.Setenv("IBRUN_LIBIBVERBS", "libibverbs-missing.so.1")
	for _, mode := range []string{"--lazy", "--eager"} {
		s := five(mode, "flat")
		s.args = append([]string{"--fabric", "ib"}, s.args...)
		o := worlds(t, s, "ring")
		require.Equal(t, 1, o.code, o.stderr)
		require.Regexp(t,
			`(?m)^ibrun: rank \d+ on \S+ aborted the job with code 1: ib: (no InfiniBand library: `+
				`libibverbs-missing|this program was built without InfiniBand).*--fabric udp$`, o.stderr)
		for line := range strings.Lines(o.stderr) {
			require.True(t, strings.HasPrefix(line, "ibrun: "), o.stderr)
		}
	}
	s := five("--lazy", "flat")
	s.args = append([]string{"-v", "--fabric", "auto"}, s.args...)
	o := worlds(t, s, "ring")
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stderr, "data does not go by InfiniBand: ")
}

// On one node ranks talk over sockets whatever the fabric; that there is no InfiniBand is said
// nevertheless, once.
func TestInfiniBandOnOneNode(t *testing.T) {
	t.Setenv("IBRUN_LIBIBVERBS", "libibverbs-missing.so.1")
	o := worlds(t, stage{args: []string{"--fabric", "ib", "-n", "3"}}, "ring")
	require.Equal(t, 0, o.code, o.stderr)
	require.Regexp(t, `^ibrun: \S+: --fabric ib is not used by a job of one node, and would not work: [^\n]+\n$`,
		o.stderr)
}

// withoutC builds a program of this repository without cgo.
func withoutC(t *testing.T, pkg string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(pkg))
	require.NoError(t, product.Program(to, "ibrun/"+pkg))
	return to
}

// A program without cgo that is started with --fabric ib says that in one line, and does not end by
// a panic: Go takes a program for stuck that waits for its agent to end it and listens to nobody.
func TestInfiniBandWithoutC(t *testing.T) {
	ring := withoutC(t, "examples/ring")
	for range 5 { // which goroutine is there when, is chance
		for _, mode := range []string{"--lazy", "--eager"} {
			o := finish(t, command(t, append(append([]string{"--fabric", "ib"}, five(mode, "flat").args...), ring)...))
			require.Equal(t, 1, o.code, o.stderr)
			// A rank may say in its own words that another one of its node has ended, or that one
			// of another node was lost: its own SIGTERM is on its way.
			said := regexp.MustCompile(`(?m)^ring: rank \d+: it (has ended|was lost)\n`).ReplaceAllString(o.stderr, "")
			require.Regexp(t,
				`^ibrun: rank \d+ on \S+ aborted the job with code 1: ib: this program was built without `+
					`InfiniBand[^\n]*--fabric udp\n$`, said)
		}
	}
}
