package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stage is a job's nodes and its tree.
type stage struct {
	name string
	args []string
}

// run is the command line for a program on a stage: behind the arguments, or where they say so.
func (s stage) run(program ...string) (line []string) {
	for _, arg := range s.args {
		if arg == "PROGRAM" {
			line = append(line, program...)
			continue
		}
		line = append(line, arg)
	}
	if !slices.Contains(s.args, "PROGRAM") {
		line = append(line, program...)
	}
	return line
}

// apart is three programs on lists of hosts that have some in common, so that ranks of a node do
// not follow each other.
var apart = stage{"each program has its hosts", []string{
	"--launcher", "local", "--iface", "lo", "--lazy", "--tree", "kary:2", "-n", "4", "-H", "a:2,b,c", "PROGRAM",
	":", "-n", "3", "-H", "b:3,d", "PROGRAM", ":", "-n", "2", "-H", "a:4,d", "PROGRAM",
}}

// local makes a stage of several agents on this machine, whose ranks talk over
// its loop interface.
func local(mode, tree string, hosts ...string) stage {
	return stage{tree + mode, append([]string{"--launcher", "local", "--iface", "lo", mode, "--tree", tree, "--hosts"},
		hosts...)}
}

// five is 5 nodes with 3 ranks each.
func five(mode, tree string) stage { return local(mode, tree, "n[1-5]", "-ppn", "3") }

// stages are one node, five equal and seven unequal ones, over several trees,
// with look-ups and with the whole table, in blocks and dealt.
func stages(t *testing.T) []stage {
	unequal := "a:1,b:4,c:2,d:1,e:3,f:2,g:3"
	dealt := local("--lazy", "kary:2", unequal, "-m", "cyclic")
	dealt.name += " dealt"
	return []stage{
		apart,
		{"one node", []string{"-n", "5"}},
		five("--lazy", "flat"), five("--lazy", "chain"), five("--eager", "kary:2"),
		local("--eager", "flat", unequal), local("--lazy=auto", "chain", unequal), local("--lazy", "kary:2", unequal),
		dealt,
	}
}

// swift spares ranks the second for which the race detector holds up an exit.
const swift = "GORACE=atexit_sleep_ms=0"

// worlds runs a scenario of worker_test.go as a job.
func worlds(t *testing.T, s stage, scenario ...string) outcome {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := command(t, s.run(append([]string{self, ":world"}, scenario...)...)...)
	c.Env = append(os.Environ(), swift)
	return finish(t, c)
}

// succeeds runs a scenario that says nothing.
func succeeds(t *testing.T, s stage, scenario ...string) {
	t.Helper()
	o := worlds(t, s, scenario...)
	require.Equal(t, 0, o.code, "%s", o.stderr)
	require.Empty(t, o.stderr)
	t.Logf("%v: %v", scenario, o.took)
}

func TestWorld(t *testing.T) {
	for _, s := range stages(t) {
		t.Run(s.name, func(t *testing.T) {
			for _, scenario := range []string{"collectives", "trouble", "kvs", "messages"} {
				succeeds(t, s, scenario)
			}
		})
	}
}

func TestWorldLargeValues(t *testing.T) {
	for _, tree := range []string{"flat", "chain", "kary:2"} {
		s := local("--lazy", tree, "a:1,b:2,c:1,d:2,e:1")
		succeeds(t, s, "heavy")
		succeeds(t, s, "large")
	}
}

// A rank of every kind ends before a collective: of the root's node, in the
// middle of the tree, alone on a leaf.
func TestWorldEndsBeforeACollective(t *testing.T) {
	for _, s := range stages(t) {
		for _, victim := range []string{"0", "4"} {
			succeeds(t, s, "ended", victim)
		}
	}
	succeeds(t, local("--lazy", "flat", "a:3,b:1"), "ended", "3")
	succeeds(t, local("--lazy", "chain", "a:3,b:1,c:2"), "ended", "3")
}

func TestWorldWill(t *testing.T) {
	for _, s := range stages(t) {
		succeeds(t, s, "will", "1") // not alone on its node, whose agent keeps the value
	}
}

func TestWorldPeerEnds(t *testing.T) {
	one, lazy, eager := stage{"one node", []string{"-n", "5"}}, five("--lazy", "kary:2"), five("--eager", "flat")
	for _, c := range []struct {
		stage
		how  string
		code int
	}{
		{one, "kill", 137}, {one, "exit", 0}, {one, "finalize", 0},
		{lazy, "kill", 137}, {lazy, "exit", 0}, {lazy, "finalize", 0},
		{eager, "kill", 137},
	} {
		t.Run(c.name+" "+c.how, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			c.args = append([]string{"--keep-going"}, c.args...)
			o := worlds(t, c.stage, "gone", c.how)
			require.Equal(t, c.code, o.code, "%s", o.stderr)
			if c.code != 0 {
				require.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
				require.Contains(t, o.stderr, "rank 3 on")
			} else {
				require.Empty(t, o.stderr)
			}
		})
	}
}

// abortCodes are codes of Abort and the exit codes of the job, none of which is that of success.
var abortCodes = []struct{ code, exit int }{{7, 7}, {0, 1}, {256, 1}, {257, 1}, {300, 44}, {-1, 255}}

func TestWorldAbort(t *testing.T) {
	for _, s := range []stage{{"", []string{"-n", "5"}}, five("--lazy", "flat"), five("--lazy", "chain")} {
		for _, c := range abortCodes {
			o := worlds(t, s, "abort", fmt.Sprint(c.code))
			require.Equal(t, c.exit, o.code, o.stderr)
			require.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
			require.Regexp(t, fmt.Sprintf(`rank (2|7) on .* aborted the job with code %d: because`, c.exit), o.stderr)
			require.Less(t, o.took, 5*time.Second)
		}
	}
}

// Outside ibrun, a program is a job of one rank.
func TestWorldOutside(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for _, scenario := range []string{"collectives", "heavy", "kvs", "messages", "ring", "child"} {
		c := exec.Command(self, ":world", scenario)
		c.Dir, c.Env = t.TempDir(), append(os.Environ(), swift)
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s: %s", scenario, out)
	}
	for _, c := range abortCodes {
		err = exec.Command(self, ":world", "abort", fmt.Sprint(c.code)).Run()
		require.ErrorContains(t, err, fmt.Sprint("exit status ", c.exit))
	}
}

func TestWorldStats(t *testing.T) {
	with := func(mode, option string) stage {
		return stage{mode, append([]string{option}, five(mode, "kary:2").args...)}
	}
	o := worlds(t, with("--lazy", "--stats"), "ring")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, "round\n", string(o.stdout))
	require.Contains(t, o.stderr, "15 ranks over 5 nodes, lazy")
	require.Contains(t, o.stderr, "peers 2.0 per rank of 14 possible")
	require.Contains(t, o.stderr, "look-ups 5 by 15 ranks")

	type numbers struct {
		Mode, Why, Fabric string
		Ranks, Nodes      int
		Sums              map[string]int
		Levels            []struct{ Asked, Own int }
	}
	for _, c := range []struct {
		mode, fabric string
		want, why    string
		moved        int
	}{
		{"--lazy", "auto", "lazy", "as asked for", 0},
		{"--eager", "udp", "eager", "as asked for", 0},
		{"--lazy=auto", "udp", "", "table", 0}, // the rule is not this test's
		{"--lazy", "tcp", "lazy", "as asked for", 10},
	} {
		s := with(c.mode, "--stats=json")
		s.args = append([]string{"--fabric", c.fabric}, s.args...)
		o := worlds(t, s, "ring")
		require.Equal(t, 0, o.code, o.stderr)
		var n numbers
		require.NoError(t, json.Unmarshal([]byte(o.stderr), &n), o.stderr)
		require.Contains(t, n.Mode, c.want)
		require.Contains(t, n.Why, c.why)
		require.Equal(t, c.fabric == "tcp", n.Fabric == "tcp")
		require.Equal(t, []int{15, 5}, []int{n.Ranks, n.Nodes})
		require.Equal(t, 15, n.Sums["ranks"])
		require.Equal(t, 30, n.Sums["peers"])
		require.Equal(t, 20, n.Sums["local_peers"])
		require.Equal(t, 5, n.Sums["lookups"]) // one for each boundary between nodes
		require.Equal(t, c.moved, n.Sums["streams"])
		require.Equal(t, c.moved/2, n.Sums["moves"], "of each pair one side sends")
		require.Equal(t, 3*c.moved/2, n.Sums["stream_messages"])
		require.Equal(t, 45, n.Sums["messages"])
		require.Equal(t, 45, n.Sums["bytes"])
	}
}

// With -v the user is told which address the first rank of each node took, and why: once where
// nodes are alike.
func TestWorldPrintsItsAddress(t *testing.T) {
	s := five("--lazy", "flat")
	s.args = append([]string{"-v"}, s.args...)
	o := worlds(t, s, "ring")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 1, strings.Count(o.stderr, ": data goes by 127.0.0.1 on lo: --iface lo\n"), o.stderr)
	require.Regexp(t, `(?m)^ibrun: n[1-5]: data goes by `, o.stderr)
}

func TestWorldProcesses(t *testing.T) {
	succeeds(t, stage{"", []string{"-n", "3"}}, "child")
	succeeds(t, five("--lazy", "flat"), "child")
	// A worker behind a shell, which stays.
	self, err := os.Executable()
	require.NoError(t, err)
	o := ibrun(t, append(five("--lazy", "flat").args, "sh", "-c", `"$0" :world ring; exit $?`, self)...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Empty(t, o.stderr)
	require.Equal(t, "round\n", string(o.stdout))
}

// endsEarly is rank 3 that ends: killed, by exit, or by Finalize alone. Half of the
// others are connected to it. All are told within five seconds, and the rest
// goes on without it.
func (r *rank) endsEarly(how string) {
	const victim = 3
	me, size := r.Rank(), r.Size()
	known := me%2 == 0
	if r.left = true; me == victim {
		for range (size + 1) / 2 {
			from, _, err := r.Recv(r.ctx)
			require.NoError(r, err)
			require.NoError(r, r.Send(r.ctx, from, []byte("good bye")))
		}
		require.NoError(r, r.Flush(r.ctx))
		switch how {
		case "kill":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case "finalize":
			over, cancel := context.WithCancel(r.ctx)
			cancel()
			require.ErrorIs(r, r.Finalize(over), context.Canceled)
			for r.ctx.Err() == nil { // its process stays
				if told, _ := filepath.Glob("told.*"); len(told) == size-1 {
					return
				}
				<-time.After(10 * time.Millisecond)
			}
		}
		return
	}
	if known {
		require.NoError(r, r.Send(r.ctx, victim, []byte("hello")))
		m, err := r.RecvFrom(r.ctx, victim)
		require.NoError(r, err)
		require.Equal(r, "good bye", string(m))
		soon, cancel := context.WithTimeout(r.ctx, 5*time.Second)
		defer cancel()
		_, err = r.RecvFrom(soon, victim) // who waits is told, and need not send
		r.names(err, victim)
	}
	_, err := r.Get(r.ctx, victim, "never")
	r.names(err, victim)
	began := time.Now()
	for err = nil; err == nil; <-time.After(time.Millisecond) {
		if err = r.Send(r.ctx, victim, []byte("are you there?")); err == nil {
			err = r.Flush(r.ctx)
		}
		require.Less(r, time.Since(began), 5*time.Second)
	}
	r.names(err, victim)
	require.NoError(r, os.WriteFile(fmt.Sprint("told.", me), nil, 0o600))
	for to := range size {
		if to != victim {
			require.NoError(r, r.Send(r.ctx, to, value(me, to, 1000)))
		}
	}
	for from := range size {
		if from != victim {
			got, err := r.RecvFrom(r.ctx, from)
			require.NoError(r, err)
			r.same(value(from, me, 1000), got, "from %d", from)
		}
	}
	// A message that has only been taken is Finalize's to report.
	if r.nodeOf(me) == r.nodeOf(victim) {
		r.names(r.Send(r.ctx, victim, nil), victim)
		require.NoError(r, r.Finalize(r.ctx))
		return
	}
	require.NoError(r, r.Send(r.ctx, victim, nil))
	r.names(r.Finalize(r.ctx), victim)
}

// abort is one rank that ends all, which wait for other things. It has more to
// say than fits.
func (r *rank) abort(code int) {
	if r.Rank() == r.Size()/2 {
		r.Abort(code, "because"+strings.Repeat(" of that", 1<<10))
	}
	var err error
	if r.Rank()%2 == 0 {
		_, _, err = r.Recv(r.ctx)
	} else {
		err = r.Barrier(r.ctx)
	}
	require.Fail(r, "the job goes on", "%v", err)
}

// ring sends to the right and receives from the left.
func (r *rank) ring() {
	me, size := r.Rank(), r.Size()
	for n := range 3 {
		require.NoError(r, r.Send(r.ctx, (me+1)%size, value(me, 0, n)))
		got, err := r.RecvFrom(r.ctx, (me+size-1)%size)
		require.NoError(r, err)
		r.same(value((me+size-1)%size, 0, n), got, "from the left")
	}
	if me == 0 {
		fmt.Println("round")
	}
}

// child is a program that a rank starts: it has nothing of the rank's.
func (r *rank) child() {
	require.NoError(r, r.Send(r.ctx, (r.Rank()+1)%r.Size(), nil)) // there are sockets to inherit
	_, _, err := r.Recv(r.ctx)
	require.NoError(r, err)
	out, err := exec.Command("sh", "-c",
		`echo "[$IBRUN_FD]"; for f in /proc/self/fd/*; do readlink $f; done | grep -c socket:; true`).CombinedOutput()
	require.NoError(r, err)
	require.Equal(r, "[]\n0\n", string(out))
}
