package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// lateBound is a job whose tree is bound late, with sessions that take as long as the
// model says.
func lateBound(n, ranks int) Config {
	cfg := plan(n, ranks, "greedy")
	cfg.Job.Launch.LateBinding = true
	cfg.Turn, cfg.Session, cfg.Run = tree.DefaultCost.SEQ, tree.DefaultCost.REM, time.Minute
	return cfg
}

// best is T* for so many nodes below the root, at parents with the core's window.
func best(n int) time.Duration { return tree.DefaultCost.Windowed(tree.Window).Optimum(n + 1) }

// wholeJob checks that every node was started once and every rank accounted for.
func wholeJob(t *testing.T, w *World, at string) {
	t.Helper()
	require.True(t, w.Outcome.AllStarted, at)
	require.Equal(t, []job.StatusRun{{Count: w.cfg.Job.Size}}, w.Outcome.Runs, at)
	require.Len(t, w.Spawned, int(w.cfg.Job.Nodes), at)
	for node, times := range w.Spawned {
		require.Equal(t, 1, times, "%s: node %d", at, node)
	}
}

// A launch in which nothing is slow costs no message more than a fixed tree, and
// takes no longer than a tenth beyond the best.
func TestLateCostsWhatAFixedTreeCosts(t *testing.T) {
	for _, n := range []int{1, 2, 3, 15, 16, 17, 31, 63, 64, 127, 255, 511, 1000, 4000}[:10+scale.sample(4)] {
		w := succeed(t, lateBound(n, 2))
		wholeJob(t, w, fmt.Sprint(n, " nodes"))
		up := upBy(w, "")
		t.Logf("%d nodes: up in %v, best %v, %.2f", n, up, best(n), float64(up)/float64(best(n)))
		require.Less(t, float64(up), slack(n)*float64(best(n)), "%d nodes", n)
	}
}

// slack is how far from the best a launch may be: what is not known when a share
// is cut adds up with each level.
func slack(n int) float64 {
	if n > 511 {
		return 1.15
	}
	return 1.10
}

// The times of a launch name each node once, after its parent, whoever it was.
func TestTimesOfALateLaunch(t *testing.T) {
	for seed := range uint64(20) {
		cfg, _ := disorder(seed)
		cfg.Job.Launch.Timed = true
		w := New(cfg)
		require.NoError(t, w.Run(time.Hour))
		up := map[job.NodeIndex]bool{0: true}
		for _, at := range started(t, w).Times {
			if at.At[job.LaunchSent] != job.Never { // else it was dead, and a spare replaces it
				require.True(t, up[at.Parent], "seed %d", seed)
				require.False(t, up[at.Node+1], "seed %d", seed)
				up[at.Node+1] = true
			}
		}
		require.Len(t, up, int(cfg.Job.Nodes)+1, "seed %d", seed)
	}
}

// upBy is when the last session to a host whose name begins so was up.
func upBy(w *World, prefix string) (last time.Duration) {
	for host, at := range w.Up {
		if strings.HasPrefix(host, prefix) {
			last = max(last, at)
		}
	}
	return last
}

// troubled makes some nodes slow, to be reached and to reach others from, and
// some dead.
type troubled struct {
	slow, dead []string
}

const slowBy = 10

func (x *troubled) takes(parent, host string) (time.Duration, bool) {
	if slices.Contains(x.dead, host) {
		return time.Hour, false
	}
	d := tree.DefaultCost.REM
	if slices.Contains(x.slow, host) || slices.Contains(x.slow, parent) {
		d *= slowBy
	}
	return d, true
}

func trouble(seed uint64, n, slow, dead int) *troubled {
	var x troubled
	for i, at := range rand.New(rand.NewPCG(seed, 7)).Perm(n)[:slow+dead] {
		host := fmt.Sprintf("node%06d", at+1)
		if i < slow {
			x.slow = append(x.slow, host)
		} else {
			x.dead = append(x.dead, host)
		}
	}
	return &x
}

func spares(n int) job.Nodes {
	return job.NewNodes(0, []job.Run{{Prefix: "spare", Width: 3, Lo: 1, Count: uint32(n)}})
}

// Bound 4 of the launch: 256 agents, 1 % ten times slower, 0.5 % dead. A node
// counts as dead when the session of a parent and that of the parent's parent have
// run out of time; its slot goes to a spare then. Nobody else waits for it: what
// lives is up as if there were slow nodes only, while a fixed tree waits for the
// dead with all that is below them.
func TestLaunchWithSlowAndDeadNodes(t *testing.T) {
	const n, timeout = 256, 15 * time.Second
	run := func(seed uint64, bound bool) *World {
		x := trouble(seed, n, 3, 1)
		cfg := lateBound(n, 1)
		cfg.Job.Launch.LateBinding, cfg.Job.Launch.StartBarrier, cfg.Job.Launch.Timeout = bound, true, timeout
		cfg.Takes, cfg.Policy.Spares = x.takes, spares(2)
		w := New(cfg)
		require.NoError(t, w.Run(time.Hour), "seed %d", seed)
		wholeJob(t, w, fmt.Sprint("seed ", seed))
		return w
	}
	detection := timeout + timeout/3
	most := best(n) + slowBy*tree.DefaultCost.REM
	var worst, fixed time.Duration
	launches := max(6, scale.sample(48))
	for seed := range uint64(launches) {
		w := run(seed, true)
		live := upBy(w, "node")
		require.Less(t, live, most+tree.DefaultCost.REM/2, "seed %d", seed)
		require.Less(t, upBy(w, ""), most+detection, "seed %d", seed)
		worst, fixed = max(worst, live), max(fixed, upBy(run(seed, false), "node"))
	}
	t.Logf("in %d launches the last live node is up after at most %v with late binding and %v in a fixed tree, %.1f "+
		"times as long; the optimum plus a slow session is %v", launches, worst, fixed,
		float64(fixed)/float64(worst), most)
	require.Greater(t, fixed, 5*worst)
}

// disorder is a job in which sessions take any time, some pairs of nodes cannot
// reach each other, and some nodes are dead.
func disorder(seed uint64) (Config, *rand.Rand) {
	rand := rand.New(rand.NewPCG(seed, 3))
	n := 2 + rand.IntN(120)
	cfg := lateBound(n, 1+rand.IntN(2))
	cfg.Job.Launch.LateBinding = rand.IntN(4) > 0
	cfg.Job.Launch.Batch = uint32(rand.IntN(5))
	if rand.IntN(3) == 0 {
		cfg.Here = rand.IntN(n)
	}
	x := trouble(seed, n, 0, min(rand.IntN(4), n-1))
	cfg.Job.Launch.StartBarrier = rand.IntN(2) == 0 // or ranks start, and ask, while nodes still change owners
	cfg.Policy.Spares = spares(3 * n)               // who is out of reach for two counts as dead
	shut := rand.IntN(4)
	cfg.Takes = func(parent, host string) (time.Duration, bool) {
		d := time.Duration(1+rand.IntN(300)) * time.Millisecond
		if rand.IntN(20) == 0 {
			d *= 10
		}
		reached := shut == 0 || parent == "root" || rand.IntN(10) >= shut*shut
		return d, reached && !slices.Contains(x.dead, host)
	}
	return cfg, rand
}

// Whatever order things happen in: no node twice, none lost, each rank where the
// slots say, though ranks ask for each other from the first moment on.
func TestLateInAnyOrder(t *testing.T) {
	sent := map[frame.Kind]int{}
	for seed := range uint64(scale.sample(150)) {
		cfg, rand := disorder(seed)
		ppn := cfg.Job.Size / cfg.Job.Nodes
		var l *lookups
		cfg.Began = func(node uint32) {
			for i := range ppn {
				l.asked++
				l.FromRank(node, node*ppn+i, rankwire.Publish{Tuple: tupleOf(node, node*ppn+i)})
				l.FromRank(node, node*ppn+i, rankwire.Ask{Rank: job.Slot(rand.IntN(int(cfg.Job.Size)))})
			}
		}
		l = answers(t, cfg)
		l.run()
		require.Empty(t, l.negative, "seed %d: nobody is told that a rank is gone", seed)
		wholeJob(t, l.World, fmt.Sprint("seed ", seed))
		for k, n := range l.Sent {
			sent[k] += n
		}
	}
	require.Greater(t, sent[wire.KindSteal], 100/scale.part, "slow ones are asked for what they have not begun")
	require.Greater(t, sent[wire.KindReturn], 1000/scale.part, "and nodes change owners")
}

// A launch that is broken off at any moment leaves nothing, whatever breaks it.
func TestLateBrokenOff(t *testing.T) {
	ends := map[int]int{}
	for seed := range uint64(scale.sample(300)) {
		cfg, rand := disorder(seed)
		cfg.Job.Launch.StartBarrier = rand.IntN(2) == 0
		if rand.IntN(2) == 0 {
			cfg.Policy.Spares = job.Nodes{}
			if cfg.Job.Launch.StartBarrier && rand.IntN(2) == 0 {
				cfg.Policy.MinNodes = 1 + rand.IntN(int(cfg.Job.Nodes))
			}
		}
		cfg.Silent = func(uint32) bool { return true }
		w := New(cfg)
		w.At(time.Duration(rand.IntN(2000))*time.Millisecond, func() {
			switch node := uint32(rand.IntN(int(cfg.Job.Nodes))); rand.IntN(3) {
			case 0:
				w.KillRoot()
			case 1:
				w.Kill(node)
			case 2:
				w.Interrupt(2)
			}
		})
		w.At(time.Minute, func() { w.Interrupt(15) })
		require.NoError(t, w.Run(2*time.Minute), "seed %d", seed)
		if w.Outcome.Code >= 0 {
			ranks := uint32(0)
			for _, r := range w.Outcome.Runs {
				ranks += r.Count
			}
			if w.Outcome.AllStarted && cfg.Policy.MinNodes > 0 {
				require.LessOrEqual(t, ranks, cfg.Job.Size, "seed %d", seed)
			} else {
				require.Equal(t, cfg.Job.Size, ranks, "seed %d: each rank ended once, in some way", seed)
			}
		}
		for node, times := range w.Spawned {
			require.Equal(t, 1, times, "seed %d: node %d", seed, node)
		}
		ends[w.Outcome.Code]++
	}
	for _, code := range []int{-1, 125, 130, 143} {
		require.Greater(t, ends[code], 5/scale.part, "%v", ends)
	}
}

// Dead nodes are dropped as long as enough remain: the ranks of the others are
// numbered without gaps, on all nodes alike, before any of them starts.
func TestFewerNodes(t *testing.T) {
	for seed := range uint64(scale.sample(60)) {
		cfg, rand := disorder(seed)
		n, ppn := int(cfg.Job.Nodes), cfg.Job.Size/cfg.Job.Nodes
		x := trouble(seed, n, 0, rand.IntN(min(n, 9)))
		takes := cfg.Takes
		cfg.Job.Launch.StartBarrier = true
		cfg.Takes = func(_, host string) (time.Duration, bool) {
			d, _ := takes("root", host)
			return d, !slices.Contains(x.dead, host)
		}
		cfg.Policy.Spares = job.Nodes{}
		cfg.Policy.MinNodes = n - len(x.dead)
		if seed%5 == 0 {
			cfg.Policy.Spares = spares(1)
			cfg.Policy.MinNodes = min(cfg.Policy.MinNodes+1, n)
		}
		left := cfg.Policy.MinNodes
		began := map[uint32]bool{} // nodes, as numbered in the end
		var l *lookups
		cfg.Began = func(node uint32) {
			a := l.agents[node]
			at := uint32(a.rank.First) / ppn
			require.False(t, began[at], "seed %d: two nodes are number %d", seed, at)
			require.Less(t, int(at), left, "seed %d", seed)
			began[at] = true
			for i := range ppn {
				l.asked++
				l.FromRank(node, at*ppn+i, rankwire.Publish{Tuple: tupleOf(at, at*ppn+i)})
				l.FromRank(node, at*ppn+i, rankwire.Ask{Rank: job.Slot(rand.IntN(left * int(ppn)))})
			}
		}
		l = answers(t, cfg)
		l.run()
		require.Empty(t, l.negative, "seed %d", seed)
		require.Len(t, began, left)
		require.Equal(t, []job.StatusRun{{Count: uint32(left) * ppn}}, l.Outcome.Runs, "seed %d", seed)
		require.Equal(t, left, n-len(x.dead)+cfg.Policy.Spares.Len()*min(len(x.dead), 1))

		cfg.Policy.MinNodes++
		cfg.Began, cfg.ToRank = nil, nil
		if cfg.Policy.MinNodes <= n && len(x.dead) > 0 {
			w := New(cfg)
			require.NoError(t, w.Run(time.Hour))
			require.Equal(t, 125, w.Outcome.Code, "seed %d: one node more is asked for than there are", seed)
			require.Empty(t, w.Spawned, "no rank has begun")
		}
	}
}

// A collective that ranks join as they start, while nodes still change owners, is
// done once all are there, and each rank has what was meant for it.
func TestLateCollective(t *testing.T) {
	for seed := range uint64(scale.sample(60)) {
		cfg, _ := disorder(seed)
		size := cfg.Job.Size
		ppn := size / cfg.Job.Nodes
		sent, got := uint32(0), 0
		cfg.ToRank = func(_, rank uint32, m frame.Message) {
			if r, ok := m.(rankwire.Release); ok {
				require.Equal(t, size, sent, "seed %d: released before all had joined", seed)
				require.Empty(t, r.Trouble)
				require.Equal(t, 1, r.Parcels.Len())
				for p := range r.Parcels.All() {
					require.Equal(t, rank, (uint32(p.From)+3)%size, "seed %d", seed)
				}
				got++
			}
		}
		var w *World
		cfg.Began = func(node uint32) {
			for i := range ppn {
				rank := node*ppn + i
				w.FromRank(node, rank, rankwire.Collect{Op: 1, What: rankwire.AllToAll,
					Parcels: rankwire.NewParcels(rankwire.Parcel{From: job.Slot(rank), To: job.Slot((rank + 3) % size),
						Value: []byte("x")})})
				sent++
			}
		}
		w = New(cfg)
		require.NoError(t, w.Run(time.Hour), "seed %d", seed)
		require.Equal(t, int(size), got, "seed %d", seed)
	}
}
