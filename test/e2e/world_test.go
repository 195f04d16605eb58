package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// local makes a stage of several agents on this machine, whose ranks talk over
// its loop interface.
func local(tree string, hosts ...string) []string {
	return append([]string{"--launcher", "local", "--iface", "lo", "--tree", tree, "--hosts"}, hosts...)
}

// stages are one node, five equal and seven unequal ones, over several trees.
func stages() []stage {
	all := []stage{{"one node", []string{"-n", "5"}}}
	for _, tree := range []string{"flat", "chain", "kary:2"} {
		all = append(all, five(tree), stage{tree + " unequal", local(tree, "a:1,b:4,c:2,d:1,e:3,f:2,g:3")})
	}
	return all
}

// five is 5 nodes with 3 ranks each.
func five(tree string) stage { return stage{tree, local(tree, "n[1-5]", "-ppn", "3")} }

// swift spares ranks the second for which the race detector holds up an exit.
const swift = "GORACE=atexit_sleep_ms=0"

// worlds runs a scenario of worker_test.go as a job.
func worlds(t *testing.T, s stage, scenario ...string) outcome {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := command(t, append(append(append([]string{}, s.args...), self, ":world"), scenario...)...)
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
	for _, s := range stages() {
		t.Run(s.name, func(t *testing.T) {
			for _, scenario := range []string{"collectives", "trouble", "board", "messages"} {
				succeeds(t, s, scenario)
			}
		})
	}
}

func TestWorldLargeValues(t *testing.T) {
	s := stage{"kary:2", local("kary:2", "a:1,b:2,c:1,d:2,e:1")}
	succeeds(t, s, "heavy")
	succeeds(t, s, "large")
}

// A rank of every kind ends before a collective: of the root's node, in the
// middle of the tree, alone on a leaf.
func TestWorldEndsBeforeACollective(t *testing.T) {
	for _, s := range stages() {
		for _, victim := range []string{"0", "4"} {
			succeeds(t, s, "ended", victim)
		}
	}
	succeeds(t, stage{"", local("flat", "a:3,b:1")}, "ended", "3")
	succeeds(t, stage{"", local("chain", "a:3,b:1,c:2")}, "ended", "3")
}

func TestWorldWill(t *testing.T) {
	for _, s := range stages() {
		succeeds(t, s, "will", "3")
	}
}

func TestWorldPeerIsGone(t *testing.T) {
	for _, s := range []stage{{"", []string{"-n", "5"}}, five("kary:2")} {
		for how, code := range map[string]int{"kill": 137, "exit": 0, "finalize": 0} {
			s.args = append([]string{"--keep-going"}, s.args...)
			o := worlds(t, s, "gone", how)
			require.Equal(t, code, o.code, "%s: %s", how, o.stderr)
			if code != 0 {
				require.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
				require.Contains(t, o.stderr, "rank 3 on")
			} else {
				require.Empty(t, o.stderr)
			}
		}
	}
}

func TestWorldAbort(t *testing.T) {
	for _, s := range []stage{{"5 2", []string{"-n", "5"}}, five("flat"), five("chain")} {
		for _, code := range []int{7, 0} {
			o := worlds(t, s, "abort", fmt.Sprint(code))
			require.Equal(t, code, o.code, o.stderr)
			require.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
			require.Regexp(t, fmt.Sprintf(`rank (2|7) on .* aborted the job with code %d: because`, code), o.stderr)
			require.Less(t, o.took, 5*time.Second)
		}
	}
}

// Outside ibrun, a program is a job of one rank.
func TestWorldOutside(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for _, scenario := range []string{"collectives", "heavy", "board", "messages", "ring", "child"} {
		c := exec.Command(self, ":world", scenario)
		c.Dir, c.Env = t.TempDir(), append(os.Environ(), swift)
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s: %s", scenario, out)
	}
	err = exec.Command(self, ":world", "abort", "7").Run()
	require.ErrorContains(t, err, "exit status 7")
}

func TestWorldStats(t *testing.T) {
	with := func(args ...string) stage { return stage{"", append(args, five("kary:2").args...)} }
	o := worlds(t, with("--stats"), "ring")
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
		args              []string
		mode, why, fabric string
		lookups, moved    int
	}{
		{nil, "lazy", "5 nodes: above 4", "udp", 5, 0},
		{[]string{"--eager"}, "eager", "as asked for", "udp", 5, 0},
		{[]string{"--fabric", "tcp"}, "lazy", "5 nodes", "tcp", 5, 10},
	} {
		o := worlds(t, with(append(c.args, "--stats=json")...), "ring")
		require.Equal(t, 0, o.code, o.stderr)
		var n numbers
		require.NoError(t, json.Unmarshal([]byte(o.stderr), &n), o.stderr)
		require.Equal(t, c.mode, n.Mode)
		require.Contains(t, n.Why, c.why)
		require.Equal(t, c.fabric, n.Fabric)
		require.Equal(t, []int{15, 5}, []int{n.Ranks, n.Nodes})
		t.Log(o.stderr)
		require.Equal(t, 15, n.Sums["ranks"])
		require.Equal(t, 30, n.Sums["peers"])
		require.Equal(t, 20, n.Sums["local_peers"])
		require.Equal(t, c.lookups, n.Sums["lookups"])
		require.Equal(t, c.moved, n.Sums["streams"])
		require.Equal(t, 45, n.Sums["messages"])
		require.Equal(t, 45, n.Sums["bytes"])
	}
}

func TestWorldProcesses(t *testing.T) {
	succeeds(t, stage{"", []string{"-n", "3"}}, "child")
	succeeds(t, five("flat"), "child")
	// A worker behind a shell, which stays.
	self, err := os.Executable()
	require.NoError(t, err)
	o := ibrun(t, append(five("flat").args, "sh", "-c", `"$0" :world ring; exit $?`, self)...)
	require.Equal(t, 0, o.code, o.stderr)
	require.Empty(t, o.stderr)
	require.Equal(t, "round\n", string(o.stdout))
}

// gone is rank 3 that ends: killed, by exit, or by Finalize alone. Half of the
// others are connected to it. All are told within five seconds, and the rest
// goes on without it.
func (r *rank) gone(how string) {
	const victim = 3
	me, size := r.Rank(), r.Size()
	known := me%2 == 0
	if r.left = true; me == victim {
		for range (size + 1) / 2 {
			_, _, err := r.Recv(r.ctx)
			require.NoError(r, err)
		}
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
	require.NoError(r, r.Finalize(r.ctx))
}

// abort is one rank that ends all, which wait for other things.
func (r *rank) abort(code int) {
	if r.Rank() == r.Size()/2 {
		r.Abort(code, "because")
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
	out, err := exec.Command("sh", "-c", `echo "[$IBRUN_FD]"; for f in /proc/self/fd/*; do readlink $f; done | grep -c socket:; true`).CombinedOutput()
	require.NoError(r, err)
	require.Equal(r, "[]\n0\n", string(out))
}
