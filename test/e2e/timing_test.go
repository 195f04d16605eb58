package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/executable"
)

// A launch over real agents: every view has every node, in order of time.
func TestLaunchIsDrawn(t *testing.T) {
	dir := t.TempDir()
	trace, page, picture := filepath.Join(dir, "t.json"), filepath.Join(dir, "r.html"), filepath.Join(dir, "r.svg")
	require.NoError(t, os.WriteFile(trace, []byte(strings.Repeat("old ", 1<<18)), 0o600))
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // what others have measured is not known here
	args := []string{"-n", "12", "--launcher", "local", "--hosts", "n[01-06]", "--tree", "kary:2"}
	o := ibrun(t, append(args, "--timing", "--trace", trace, "--report", page, "true")...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, o.stderr, "ibrun: timing: 6 of 6 agents up after ")
	require.Contains(t, o.stderr, "ibrun: timing: spawn ")
	require.NotContains(t, o.stderr, "\x1b", "no escape codes where there is no terminal")
	var events []struct {
		Name string
		Ph   string
		Pid  int
		At   int64 `json:"ts"` // microseconds
		Dur  int64
	}
	text, err := os.ReadFile(trace)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &events))
	spawned, begun := map[int]int64{}, map[int]int64{}
	for _, e := range events {
		switch e.Ph + e.Name {
		case "Xspawn":
			spawned[e.Pid] = e.At
		case "Xconnect":
			begun[e.Pid] = e.At
		}
	}
	require.Len(t, spawned, 6)
	require.Len(t, begun, 6)
	// n01 and n04 head the two subtrees of three.
	for child, parent := range map[int]int{3: 2, 4: 2, 6: 5, 7: 5} {
		require.GreaterOrEqual(t, begun[child], spawned[parent]-1, "a node is begun when its parent is up")
		require.Greater(t, spawned[child], begun[child])
	}
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, 6, strings.Count(string(html), `<g class="row">`))

	o = ibrun(t, append(args, "--timing", "--json", "--report", picture, "true")...)
	require.Equal(t, 0, o.code, o.stderr)
	var summary struct {
		Nodes, Ranks int
		Up           int `json:"agents_up"`
		Phases       []struct {
			Phase string
			Nodes int
		}
		Predicted, Measured map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(o.stderr), &summary), o.stderr)
	require.Equal(t, 6, summary.Up)
	require.Equal(t, 12, summary.Ranks)
	require.Equal(t, "connect", summary.Phases[0].Phase)
	require.Equal(t, 6, summary.Phases[0].Nodes)
	require.Equal(t, "built in", summary.Predicted["from"])
	require.Equal(t, 6.0, summary.Measured["sessions"])
	svg, err := os.ReadFile(picture)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(svg), "<svg "))
}

// What cannot be written is refused before anything starts, and a job that does
// not start leaves no file behind.
func TestViewsThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	touched := filepath.Join(dir, "touched")
	for _, option := range []string{"--trace", "--report"} {
		o := ibrun(t, option, filepath.Join(dir, "none", "f"), "touch", touched)
		require.Equal(t, 2, o.code)
		require.Contains(t, o.stderr, "option "+option+": ")
		require.Contains(t, o.stderr, "cannot be written: no such file or directory")
		require.NoFileExists(t, touched)
	}
	o := ibrun(t, "--trace", "a", "--report", "a", "touch", touched)
	require.Equal(t, 2, o.code)
	require.Contains(t, o.stderr, "name two files")
	fresh := filepath.Join(dir, "fresh")
	o = ibrun(t, "--trace", fresh, "--report", dir, "touch", touched)
	require.Equal(t, 2, o.code)
	require.NoFileExists(t, fresh)
	require.NoFileExists(t, touched)
}

// A launch that fails is shown as far as it came.
func TestFailedLaunchIsDrawn(t *testing.T) {
	page := filepath.Join(t.TempDir(), "r.html")
	o := ibrun(t, "--launcher-exec", "/bin/false", "--hosts", "n[1-3]", "--timing", "--report", page, "true")
	require.Equal(t, 125, o.code, o.stderr)
	require.Contains(t, o.stderr, "timing: 0 of 3 agents up")
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(html), `class="failed"`))
}

// A launch that lasts shows how far it is on a terminal, and nowhere else.
func TestProgressOnATerminal(t *testing.T) {
	dir := t.TempDir()
	slow := filepath.Join(dir, "slow")
	require.NoError(t, executable.Write(slow, []byte("#!/bin/sh\nsleep 1.6\nshift\nexec sh -c \"$*\"\n")))
	line := program + " --launcher-exec " + slow + " --hosts n1 echo said"
	onTerminal := finish(t, under(t, "script", "-qec", line, "/dev/null"))
	require.Equal(t, 0, onTerminal.code, string(onTerminal.stdout))
	require.Contains(t, string(onTerminal.stdout), "\ribrun: launching, 0 of 1 node settled (1 s)\x1b[K")
	require.Regexp(t, `\x1b\[K\r\x1b\[K(said\r\n)?`, string(onTerminal.stdout), "it goes away")
	elsewhere := finish(t, under(t, "sh", "-c", line))
	require.Equal(t, "said\n", string(elsewhere.stdout))
	require.Empty(t, elsewhere.stderr)
}

// under is another program that runs ibrun.
func under(t *testing.T, name string, args ...string) *exec.Cmd {
	c := command(t)
	path, err := exec.LookPath(name)
	require.NoError(t, err)
	c.Path, c.Args = path, append([]string{name}, args...)
	return c
}

// Launches with enough sessions are remembered, and the next is planned with that.
func TestCostsOfEarlierLaunches(t *testing.T) {
	cache := t.TempDir()
	run := func(args ...string) outcome {
		c := command(t, args...)
		c.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
		return finish(t, c)
	}
	args := []string{"--launcher", "local", "--hosts", "n[01-09]", "--tree", "flat"}
	require.Contains(t, string(run("--calibrate").stdout), "no launch was measured yet")
	require.Equal(t, 0, run(append(args, "true")...).code)
	require.Regexp(t, `local +n +1 +9 `, string(run("--calibrate").stdout))
	o := run(append(args, "--dry-run", "true")...)
	require.Contains(t, string(o.stdout), "median of 1 measurement")
	require.NoError(t, os.WriteFile(filepath.Join(cache, "ibrun", "costs.json"), []byte("{"), 0o600))
	o = run(append(args, "--dry-run", "true")...)
	require.Empty(t, o.stderr)
	require.Contains(t, string(o.stdout), "built in")
}
