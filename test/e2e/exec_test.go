package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/control"
)

// sleepers is a job of three nodes in a chain with two ranks each that runs until it is ended.
func sleepers(t *testing.T, options ...string) *running {
	args := append([]string{"--launcher", "local", "--tree", "chain", "--hosts", "a:2,b:2,c:2", "--bind-to", "none"},
		options...)
	r := controlled(t, append(args, "sh", "-c", "echo up; exec sleep 1000")...)
	r.until("6 ranks: runs", "status")
	return r
}

// end ends the job.
func (r *running) end() {
	r.t.Helper()
	require.Equal(r.t, 0, r.ctl("end").code)
	require.Equal(r.t, 143, r.ends(), r.err.String())
}

func inOrder(out string) []string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	return lines
}

// One process runs on each node, or beside each rank, and knows which node, ranks and processes are
// there. The exit code is the largest, with a line for each that failed; the job does not notice.
func TestExec(t *testing.T) {
	r := sleepers(t)
	got := r.ctl("exec", "--", "sh", "-c",
		`for p in $(echo $IBRUN_PIDS | tr , ' '); do
			echo $IBRUN_DAEMON $IBRUN_HOST $IBRUN_RANKS $(cat /proc/$p/comm); done`)
	require.Equal(t, 0, got.code, got.stderr)
	require.Empty(t, got.stderr)
	require.Equal(t, []string{"0 a 0,1 sleep", "0 a 0,1 sleep", "1 b 2,3 sleep", "1 b 2,3 sleep", "2 c 4,5 sleep",
		"2 c 4,5 sleep"}, inOrder(string(got.stdout)))

	got = r.ctl("exec", "--per-rank", "sh", "-c", `echo $IBRUN_HOST $IBRUN_RANK $IBRUN_RANKS; exit $IBRUN_RANK`)
	require.Equal(t, 5, got.code)
	require.Equal(t, []string{"a 0 0", "a 1 1", "b 2 2", "b 3 3", "c 4 4", "c 5 5"}, inOrder(string(got.stdout)))
	require.Equal(t, 5, strings.Count(got.stderr, "it exited"))
	require.Contains(t, got.stderr, "ibrun: b, beside rank 3: code 3: it exited\n")

	got = r.ctl("exec", "--hosts", "[bc]", "--", "sh", "-c", "kill -SEGV $$")
	require.Equal(t, 125, got.code, "no such host")
	got = r.ctl("exec", "--hosts", "c,b", "--", "sh", "-c", "echo $IBRUN_DAEMON; echo err >&2; kill -SEGV $$")
	require.Equal(t, 139, got.code)
	require.Equal(t, []string{"0", "1"}, inOrder(string(got.stdout)))
	require.Equal(t, []string{"err", "err", "ibrun: b: code 139: signal 11, segmentation fault",
		"ibrun: c: code 139: signal 11, segmentation fault"}, inOrder(got.stderr))

	got = r.ctl("exec", "/nowhere/at/all")
	require.Equal(t, 127, got.code)
	require.Contains(t, got.stderr, "ibrun: a: code 127: ")
	require.Equal(t, 2, r.ctl("exec").code)
	require.Equal(t, 2, r.ctl("status", "--per-rank").code)

	last := inOrder(string(r.ctl("exec", "--json", "--hosts", "a", "--", "sh", "-c", "exit 3").stdout))
	var end control.Response
	require.NoError(t, json.Unmarshal([]byte(last[len(last)-1]), &end))
	require.Equal(t, control.Response{Done: true, Ends: &control.Ends{Daemons: 1, Code: 3,
		Failed: []control.Failed{{Host: "a", Code: 3, Cause: "it exited"}}}}, end)
	r.until("6 ranks: runs", "status")
	r.end()
}

// execCaller is one whose daemons run: each has printed its process.
type execCaller struct {
	out  io.Reader
	pids []int
	stop func() // kills the caller
	wait func() int
}

// daemons starts some that sleep, with a child each.
func (r *running) daemons(options ...string) execCaller {
	c := command(r.t, slices.Concat([]string{"ctl", "exec"}, options,
		[]string{"--", "sh", "-c", "sleep 1000 & echo $$ $!; wait"})...)
	c.Env, c.Stderr = r.env, os.Stderr
	out, err := c.StdoutPipe()
	require.NoError(r.t, err)
	require.NoError(r.t, c.Start())
	var wait sync.Once
	end := func() int {
		wait.Do(func() { _ = c.Wait() })
		return c.ProcessState.ExitCode()
	}
	r.t.Cleanup(func() { _ = c.Process.Kill(); end() })
	k := execCaller{out: out, stop: func() { _ = c.Process.Kill(); end() }, wait: end}
	lines := bufio.NewScanner(out)
	for range 3 {
		require.True(r.t, lines.Scan(), "a daemon has not begun")
		var shell, child int
		_, err := fmt.Sscan(lines.Text(), &shell, &child)
		require.NoError(r.t, err)
		k.pids = append(k.pids, shell, child)
	}
	return k
}

// ended waits until none of the processes is there.
func (k execCaller) ended(t *testing.T) {
	t.Helper()
	eventually(t, patience, "the daemons end", func() bool {
		return !slices.ContainsFunc(k.pids, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
	})
}

// The daemons of a caller that has ended end, with what they have started; those of others run on.
func TestExecCallerEnds(t *testing.T) {
	r := sleepers(t)
	first, second := r.daemons(), r.daemons()
	require.NotContains(t, second.pids, first.pids[0])
	first.stop()
	first.ended(t)
	for _, pid := range second.pids {
		require.NoError(t, syscall.Kill(pid, 0), "of the other caller")
	}
	require.Equal(t, 0, r.ctl("exec", "true").code, "others may follow")
	require.NoError(t, syscall.Kill(second.pids[0], syscall.SIGKILL))
	second.stop()
	second.ended(t)
	r.until("6 ranks: runs", "status")
	r.end()
}

// The end of the job ends daemons. Each caller is told how: 137, whatever the order in which the
// loop and the answer end.
func TestExecJobEnds(t *testing.T) {
	for i := range 10 {
		r := sleepers(t)
		callers := []execCaller{r.daemons(), r.daemons()}
		if i%2 == 0 {
			r.end()
		} else { // the ranks end by themselves
			require.Equal(t, 0, r.ctl("signal", "KILL", "--ranks", "0").code)
			require.Equal(t, 137, r.ends())
		}
		for _, k := range callers {
			require.Equal(t, 137, k.wait())
			k.ended(t)
		}
	}
}

// The ranks end with 0 while daemons run: the job's code is 0, and it does not wait for them.
func TestExecRanksEnd(t *testing.T) {
	end := filepath.Join(t.TempDir(), "end")
	r := controlled(t, "--launcher", "local", "--tree", "chain", "--hosts", "a,b,c", "--bind-to", "none", "sh", "-c",
		"until [ -e "+end+" ]; do sleep 0.1; done")
	r.until("3 ranks: runs", "status")
	k := r.daemons()
	require.NoError(t, os.WriteFile(end, nil, 0o600))
	require.Equal(t, 0, r.ends(), r.err.String())
	require.Equal(t, 137, k.wait())
	k.ended(t)
}

// A caller that reads nothing stops its daemons, after a bounded number of bytes, and nothing else:
// other callers are served, and ranks are. When it reads on, all has been kept.
func TestExecSlowCaller(t *testing.T) {
	r := sleepers(t)
	dir := t.TempDir()
	c := command(t, "ctl", "exec", "--", "sh", "-c",
		`i=0; while :; do printf '%s %01000d\n' $IBRUN_HOST $i; i=$((i+1)); echo $i >`+dir+`/$IBRUN_HOST; done`)
	c.Env = r.env
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	printed := func() (lines int) {
		for _, host := range []string{"a", "b", "c"} {
			text, _ := os.ReadFile(filepath.Join(dir, host))
			n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
			lines += n
		}
		return lines
	}
	eventually(t, patience, "output", func() bool { return printed() > 100 })
	stands := func() bool { // while others are served
		before := printed()
		for range 20 {
			require.Equal(t, 0, r.ctl("exec", "true").code)
		}
		return before == printed()
	}
	eventually(t, patience, "the daemons stop", stands)
	held := printed()
	require.Less(t, held, 2500, "KiB between daemons and caller")
	t.Logf("%d KiB are held between 3 daemons and a caller that reads nothing", held)
	next, lines := map[string]int{}, bufio.NewScanner(out)
	for range 2 * held {
		require.True(t, lines.Scan())
		host, number, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.Atoi(number)
		require.NoError(t, err)
		require.Equal(t, next[host], n, host)
		next[host]++
	}
	r.end()
}
