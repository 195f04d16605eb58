package e2e

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/product"
)

// printed are the lines, sorted, since jobs print side by side.
func printed(o outcome) []string {
	all := strings.Split(strings.TrimSuffix(string(o.stdout), "\n"), "\n")
	slices.Sort(all)
	return all
}

// A spawned job runs on its parent's hosts, knows what was put for it before,
// shares the names, and may spawn another one.
func TestSpawn(t *testing.T) {
	client := pmiClient(t)
	for _, s := range stages(t) {
		args := s.run(client, "-spawn", "3", "--", client, "-child")
		o := ibrun(t, args...)
		require.Equal(t, 0, o.code, "%s: %s", s.name, o.stderr)
		require.Equal(t, []string{"child 0 of 3", "child 1 of 3", "child 2 of 3", "cmd=spawn_result rc=0"}, printed(o),
			s.name)
		require.Empty(t, o.stderr)
	}
	o := ibrun(t, "--launcher", "local", "--hosts", "a,b,c", "--pmi-port", "-n", "1", client, "-spawn", "2", "--",
		client, "-child", "-spawn", "3", "--", client, "-child")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, []string{"child 0 of 2", "child 0 of 3", "child 1 of 2", "child 1 of 3", "child 2 of 3",
		"cmd=spawn_result rc=0", "cmd=spawn_result rc=0"}, printed(o))
	o = ibrun(t, "--launcher", "local", "--hosts", "a,b,c", "-x", "E2E_X=x", "-n", "1", client, "-spawn", "3", "--",
		"sh", "-c", "echo $IBRUN_HOST $IBRUN_NODES $PMI_SIZE $E2E_X")
	require.Equal(t, 0, o.code, o.stderr)
	require.Subset(t, printed(o), []string{"a 3 3 x", "b 3 3 x", "c 3 3 x"})
}

// What cannot be spawned is refused, with the reason, and the parent goes on.
func TestSpawnRefused(t *testing.T) {
	client := pmiClient(t)
	for _, c := range []struct {
		args []string
		why  string
	}{
		{nil, "/nowhere/x: no such file"},
		{[]string{"--no-preflight"}, "rank 0 and 2 others on"}, // found out by the nodes
		{[]string{"--launcher", "local", "--hosts", "a,b,c", "--no-preflight"},
			"could not be started: /nowhere/x: no such file"},
	} {
		o := ibrun(t, append(c.args, "-n", "2", client, "-spawn", "3", "--", "/nowhere/x")...)
		require.Equal(t, 0, o.code, o.stderr)
		require.Equal(t, 1, strings.Count(string(o.stdout), "\n"))
		require.Contains(t, string(o.stdout), "cmd=spawn_result rc=-1 msg=")
		require.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
		require.Contains(t, o.stderr, "rank 0: nothing was spawned: ")
		require.Contains(t, o.stderr, c.why)
	}
}

// A spawned job that fails is a failure of its parent's, from any depth; one
// that is slower than its parent is waited for.
func TestSpawnFails(t *testing.T) {
	client := pmiClient(t)
	entry := mark(t)
	parent := []string{"-x", entry, "-n", "2", "sh", "-c", `"$@"; sleep 1000`, "sh", client, "-spawn", "2", "--"}
	for _, c := range [][]string{
		{"sh", "-c", "sleep 0.3; exit 7"},
		{"sh", "-c", `"$@"; sleep 1000`, "sh", client, "-child", "-spawn", "1", "--", "sh", "-c", "sleep 0.3; exit 7"},
	} {
		o := ibrun(t, append(parent, c...)...)
		require.Equal(t, 7, o.code, o.stderr)
		require.Contains(t, o.stderr, "ibrun: spawned job: rank ")
		require.Contains(t, o.stderr, "ibrun: the job was ended: a job that it had spawned failed with code 7")
		require.Empty(t, left(entry))
		require.Less(t, o.took, 20*time.Second)
	}
	o := ibrun(t, "--keep-going", "-n", "1", client, "-spawn", "2", "--", "sh", "-c", "sleep 0.5; echo late; exit 3")
	require.Equal(t, 3, o.code, o.stderr)
	require.Equal(t, []string{"cmd=spawn_result rc=0", "late", "late"}, printed(o))
	o = ibrun(t, "-n", "1", client, "-spawn", "2", "--", "sh", "-c", "sleep 0.5; echo late")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, []string{"cmd=spawn_result rc=0", "late", "late"}, printed(o))
}

// Whoever of the family is ended, nothing is left.
func TestSpawnLeavesNothing(t *testing.T) {
	client := pmiClient(t)
	for _, end := range []struct {
		name   string
		role   string // of the process that is ended; empty: the command
		signal syscall.Signal
		code   int
	}{
		{"parent interrupted", "", syscall.SIGINT, 130},
		{"parent killed", "", syscall.SIGKILL, -1},
		{"child killed", ":spawned", syscall.SIGKILL, 137},
	} {
		entry := mark(t) + strconv.Itoa(end.code)
		c := command(t, "--launcher", "local", "--hosts", "a,b", "-x", entry, "-n", "2", "sh", "-c", `"$@"; sleep 1000`,
			"sh",
			client, "-spawn", "2", "--", "sh", "-c", `trap "echo told; exit 1" TERM; sleep 1000 & wait`)
		var out, stderr bytes.Buffer
		c.Stdout, c.Stderr = &out, &stderr
		require.NoError(t, c.Start())
		eventually(t, 2*time.Minute, "two sleeps of the parent's, two of the child's",
			func() bool { return sleeping(marked(entry)) == 4 })
		whom := c.Process.Pid
		if end.role != "" {
			whom = agents(end.role)[0]
		}
		require.NoError(t, syscall.Kill(whom, end.signal))
		_ = c.Wait() // how it ended is looked at below
		o := outcome{code: c.ProcessState.ExitCode(), stdout: out.Bytes(), stderr: product.Complaints(stderr.String())}
		require.Equal(t, end.code, o.code, "%s: %s", end.name, o.stderr)
		if end.signal == syscall.SIGINT { // all of the family may say goodbye, and one of it tells the user why
			require.Equal(t, []string{"cmd=spawn_result rc=0", "told", "told"}, printed(o))
			require.Equal(t, "ibrun: the job was ended: ibrun got SIGINT\n", o.stderr)
		}
		eventually(t, 10*time.Second, end.name+": all are gone", func() bool {
			return len(marked(entry)) == 0 && len(agents(":spawned"))+len(agents(":agent")) == 0
		})
	}
}

// sleeping counts the processes that run sleep.
func sleeping(pids []string) (n int) {
	for _, pid := range pids {
		if b, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && strings.HasPrefix(string(b), "sleep\x00") {
			n++
		}
	}
	return n
}
