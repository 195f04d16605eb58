//go:build cluster

package ssh

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// wide makes TestResizeOverNodes one of 64 ranks on 8 nodes, which grows by 4 (make resize), and
// gives all jobs of TestControlOverNodes 256 ranks on 16 nodes (make stuck).
var wide = flag.Bool("wide", false, "jobs of many ranks")

// A stencil over real sessions grows and shrinks back while it computes. Its result is that of the
// undisturbed run, and nothing is left on the nodes that have left.
func TestResizeOverNodes(t *testing.T) {
	nodes, by, ppn := 2, 1, 2
	if *wide {
		nodes, by, ppn = 8, 4, 8
	}
	c := cluster.Require(t, cluster.Config{Nodes: nodes + by})
	heat := example(t, c, "examples/resize")
	dir, err := os.MkdirTemp("", "ctl")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	inDir := func(args ...string) []string {
		return append([]string{"env", "XDG_RUNTIME_DIR=" + dir, program}, args...)
	}
	start := func(changes string) *job {
		return run(t, c, inDir("--hosts", fmt.Sprintf("node[0001-%04d]", nodes), "-ppn", fmt.Sprint(ppn), "--bind-to",
			"none", heat, "-rows", "192", "-steps", "400", "-changes", changes)...)
	}
	total := regexp.MustCompile(fmt.Sprintf(`sum ([0-9a-f]{16}); %d ranks at the end, resized (\d) times`, nodes*ppn))
	quiet := start("0").wait()
	require.Equal(t, 0, quiet.code, quiet.stderr)
	want := total.FindStringSubmatch(quiet.stdout)
	require.NotEmpty(t, want, quiet.stdout)

	j := start("2")
	ask := func(words ...string) {
		began := time.Now()
		var o outcome
		eventually(t, time.Minute, "the program has called Resize", func() bool {
			began = time.Now()
			o = run(t, c, inDir(append([]string{"ctl"}, words...)...)...).wait()
			return !regexp.MustCompile("no job of yours|not called Resize|being launched").MatchString(o.stderr)
		})
		require.Equal(t, 0, o.code, o.stderr)
		t.Logf("ctl %v took %v: %s", words, time.Since(began).Round(time.Millisecond), o.stdout)
	}
	ask("grow", fmt.Sprintf("node[%04d-%04d]", nodes+1, nodes+by))
	ask("shrink", fmt.Sprint(by))
	eventually(t, 20*time.Second, "nothing is left on nodes that have left", func() bool {
		for _, node := range c.Nodes()[nodes:] {
			if len(ours(t, c, node)) > 0 {
				return false
			}
		}
		return true
	})
	o := j.wait()
	require.Equal(t, 0, o.code, o.stderr)
	got := total.FindStringSubmatch(o.stdout)
	require.Equal(t, []string{want[1], "2"}, got[1:], o.stdout)
	t.Log(o.stdout)
	eventually(t, 5*time.Second, "nothing is left", func() bool { return everywhere(t, c) == 0 })
}
