package core

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/test/fuzzed"
)

// world is a job of real cores whose links, remote shells and ranks are played
// here, in an order that the input of a fuzz target chooses. One neighbour of one
// agent may lie: a child, a parent or a rank.
type world struct {
	t      *testing.T
	choose *fuzzed.Input
	job    *job.Job
	now    time.Duration
	agents []*member // the root first
	posted []delivery
	bytes  int    // of frames that were received
	spent  uint64 // bytes that the cores have allocated
	liar   liar
	done   *Outcome
}

// member is one agent.
type member struct {
	core     *Core
	host     string
	parent   *member
	slot     Link // at the parent
	children map[Link]*member
	timer    time.Duration // 0: none
	node     job.Node      // of its ranks
	alive    map[job.Slot]bool
	ops      map[job.Slot]uint32 // collectives that a rank has joined
	fences   []uint32            // those that have succeeded, as a rank was told
	heldUp   bool                // its link up has ended
	over     bool
}

// delivery is an event on its way. Those of one path keep their order.
type delivery struct {
	to   *member
	path any // *member for a link from there; nil: of the agent's own node
	ev   Event
}

// newWorld draws a job: its layout, tree and modes.
func newWorld(t *testing.T, c *fuzzed.Input) *world {
	var runs []job.Run
	nodes := 2 + c.Of(7)
	for i := range nodes {
		run := job.Run{Prefix: "n", Width: 1, Lo: uint64(i), Count: 1, Ranks: 1}
		if c.Odds(3) {
			run.Ranks += uint32(c.Of(3))
		}
		runs = append(runs, run)
	}
	all := job.NewNodes(0, runs)
	j := &job.Job{
		ID: "j", Size: all.Ranks(), Nodes: uint32(nodes), Layout: all.Layout().Dealt(uint32(c.Of(3))), FirstHost: "n0",
		Programs: []job.Program{{Count: all.Ranks(), Argv: []string{"a"}}},
		Launch:   job.LaunchOptions{Tree: []string{"flat", "chain", "kary:2", "binomial", "two-level", "greedy:1ms,3ms"}[c.Of(6)], Grace: time.Second, Timeout: 15 * time.Second, Batch: uint32(c.Of(3))},
	}
	mode := c.Byte()
	j.Launch.LateBinding = strings.HasPrefix(j.Launch.Tree, "greedy") && mode&1 > 0
	j.Launch.Timed, j.Transport.Stats, j.Transport.Eager, j.Binding.Report = mode&2 > 0, mode&4 > 0, mode&8 > 0, mode&16 > 0
	if mode&32 > 0 {
		j.Stdin.Mode = job.StdinAll
	}
	cfg := Config{Root: true, Host: "front", Here: c.Of(nodes+1) - 1, Check: true, Policy: Policy{KillOnBad: mode&64 > 0}}
	if mode&128 > 0 {
		j.Launch.StartBarrier = true
		if cfg.Policy.Spares = job.NewNodes(0, []job.Run{{Prefix: "s", Width: 1, Count: 2}}); c.Odds(2) {
			cfg.Policy.Spares, cfg.Policy.MinNodes = job.Nodes{}, 1
		}
	}
	if c.Odds(4) {
		j.Launch.Restarts, cfg.Policy.MaxRestarts = true, 3
		j.Launch.RestartAll = c.Odds(2)
	}
	w := &world{t: t, choose: c, job: j}
	root := &member{core: New(cfg), host: "front", children: map[Link]*member{}}
	w.agents = []*member{root}
	w.step(root, Begin{wire.Launch{Job: j, Nodes: all}})
	return w
}

// step lets an event happen to an agent, and does what it wants done.
func (w *world) step(a *member, ev Event) {
	if a.over {
		return
	}
	before := fuzzed.Allocated()
	effects := slices.Clone(a.core.Step(w.now, ev))
	w.spent += fuzzed.Allocated() - before
	require.Less(w.t, len(effects), 5000, "effects of one event")
	for _, e := range effects {
		w.perform(a, e)
	}
}

func (w *world) post(a *member, ev Event) { w.posted = append(w.posted, delivery{to: a, ev: ev}) }

func (w *world) perform(a *member, e Effect) {
	switch e := e.(type) {
	case Send:
		w.send(a, e)
	case StartChild:
		w.startChild(a, e)
	case CloseLink:
		w.closed(a, e.Link)
	case SetTimer:
		a.timer = e.At
	case Fork:
		a.node, a.alive, a.ops = e.Node, map[job.Slot]bool{}, map[job.Slot]uint32{}
		for i := range e.Node.Ranks {
			a.alive[e.Node.First+job.Slot(i)] = true
		}
		if e.Job.Binding.Report {
			w.post(a, Placed{wire.Placed{Node: e.Index, Host: a.host, Ranks: wire.NewPlacements(wire.Placement{Rank: e.Node.First})}})
		}
		failed := []ForkFailure(nil)
		if w.choose.Odds(16) {
			failed = append(failed, ForkFailure{e.Node.First, 127, "no such file"})
			delete(a.alive, e.Node.First)
		}
		w.post(a, ForkDone{failed})
	case SendRank:
		w.told(a, e)
	case SignalRanks:
		if e.Number == sigTerm || e.Number == sigInt {
			w.endRanks(a, e.Number)
		}
	case KillRanks:
		w.endRanks(a, sigKill)
	case Sweep:
		w.post(a, Swept{})
	case Fence:
		w.post(a, RankFenced{Rank: e.Rank})
	case EmptyNode:
		w.endRanks(a, sigKill)
		w.post(a, NodeEmptied{})
	case Refork:
		a.alive[e.Rank], a.ops[e.Rank] = true, 0
		ev := Respawned{Rank: e.Rank}
		if w.choose.Odds(16) {
			ev.Code, ev.Cause = 126, "no such luck"
			delete(a.alive, e.Rank)
		}
		w.post(a, ev)
	case SweepJob:
		w.post(a, JobSwept{})
	case SweepNode:
		if !w.choose.Odds(8) { // it may never answer
			w.post(a, NodeSwept{Index: e.Index, Killed: 1})
		}
	case Feed:
		w.post(a, RankInputRead{e.Rank, len(e.Data)})
	case ReadBulk:
		w.post(a, BulkRead{e.Fence, []byte(a.host)})
	case Probe:
		w.post(a, Probed{Link: e.Link, Known: true, Resent: 8, Waits: true})
	case Write:
		w.post(a, Wrote{len(e.Data)})
	case ReadStdin:
		if w.choose.Odds(2) {
			w.post(a, StdinRead{Data: make([]byte, min(e.N, wire.MaxData)), EOF: w.choose.Odds(4)})
		}
	case StartJob:
		w.post(a, JobAnswered{Rank: e.Spawn.Rank, Refused: "no"})
		w.post(a, JobEnded{})
	case Report:
		if f, ok := e.What.(wire.Fault); ok {
			w.blamed(f)
		}
	case Finish, Leave:
		w.leave(a)
	case Done:
		w.done = &e.Outcome
		w.leave(a)
	}
}

// send passes a message through the codec, as a link does.
func (w *world) send(a *member, e Send) {
	to, from, sender := a.parent, a.slot, frame.Child
	if e.To != Up {
		to, from, sender = a.children[e.To], Up, frame.Parent
	}
	require.True(w.t, wire.Vocabulary.Allows(e.Msg.Kind(), sender), "%v is sent by a %v", e.Msg, sender)
	if f, ok := e.Msg.(wire.Fault); ok {
		w.blamed(f)
	}
	bytes := frame.Append(nil, e.Msg)
	m, err := wire.Vocabulary.Parse(bytes[4:])
	require.NoError(w.t, err, "what is sent is refused: %v", e.Msg)
	if to == nil {
		return
	}
	w.bytes += len(bytes)
	w.posted = append(w.posted, delivery{to, a, Frame{from, m}})
}

func (w *world) startChild(a *member, e StartChild) {
	k := &member{core: New(Config{Here: -1, Join: inOne, Check: true}), host: e.Node.Host, parent: a, slot: e.Child, children: map[Link]*member{}}
	if w.choose.Odds(40) {
		w.post(a, ChildFailed{Child: e.Child, Phase: "connect", Cause: "refused"})
		return
	}
	a.children[e.Child] = k
	w.agents = append(w.agents, k)
	w.posted = append(w.posted, delivery{a, k, ChildUp{Child: e.Child}}) // nothing is read from a link before
}

// closed is the end of a link by one side: the other sees the end of the stream.
func (w *world) closed(a *member, l Link) {
	if l == Up {
		require.True(w.t, w.liar.mayAnger(a), "%s gave up its parent", a.host)
		w.cutOff(a)
		return
	}
	if k := a.children[l]; k != nil {
		w.cutOff(k)
	}
}

// cutOff ends the link of an agent to its parent.
func (w *world) cutOff(k *member) {
	if k.heldUp {
		return
	}
	k.heldUp = true
	w.posted = append(w.posted,
		delivery{k, k.parent, LinkLost{Link: Up, Cause: "end of file"}},
		delivery{k.parent, k, LinkLost{Link: k.slot, Cause: "the session ended"}})
}

// leave ends an agent and its links.
func (w *world) leave(a *member) {
	a.over = true
	if a.parent != nil {
		w.cutOff(a)
	}
	for _, l := range slices.Sorted(maps.Keys(a.children)) {
		w.cutOff(a.children[l])
	}
}

func (w *world) endRanks(a *member, signal uint8) {
	for _, rank := range slices.Sorted(maps.Keys(a.alive)) {
		w.exit(a, rank, job.Status{Kind: job.Signaled, Code: signal})
	}
}

func (w *world) exit(a *member, rank job.Slot, s job.Status) {
	delete(a.alive, rank)
	w.post(a, RankExited{Rank: rank, Status: s, Signaled: w.choose.Odds(2)})
	w.post(a, RankDrained{rank})
}

// told is what a rank hears: addresses and parcels are of those that they say.
func (w *world) told(a *member, e SendRank) {
	m, err := rankwire.Vocabulary.Parse(frame.Append(nil, e.Msg)[4:])
	require.NoError(w.t, err, "what a rank is told is refused: %v", e.Msg)
	require.True(w.t, rankwire.Vocabulary.Allows(m.Kind(), frame.Agent), "%v", m)
	switch m := m.(type) { // where it goes on counting after restarts
	case rankwire.Welcome:
		a.ops[e.Rank] = max(a.ops[e.Rank], m.Op)
	case rankwire.Restarted:
		a.ops[e.Rank] = max(a.ops[e.Rank], m.Op)
	case rankwire.Release:
		if m.Trouble == "" {
			a.fences = append(a.fences, m.Op)
		}
	}
	if w.liar.reaches(a) {
		return
	}
	switch m := m.(type) {
	case rankwire.Answer:
		if m.What == rankwire.Found && m.Key == "" && !w.liar.hasRank(m.Rank) {
			b, err := fabric.ParseBlock(m.Value)
			require.NoError(w.t, err)
			tuple, _, ok := b.Tuple(uint32(m.Rank))
			require.True(w.t, ok)
			require.Equal(w.t, uint32(m.Rank), tuple.Num, "the address of rank %d", m.Rank)
		}
	case rankwire.Release:
		for p := range m.Parcels.All() {
			require.True(w.t, p.To == rankwire.Everyone || p.To == e.Rank)
			if !w.liar.hasRank(p.From) && len(p.Value) == 1 {
				require.Equal(w.t, byte(p.From), p.Value[0], "a parcel from rank %d", p.From)
			}
		}
	case rankwire.Name:
		require.Equal(w.t, e.Rank, m.Rank)
	}
}

// blamed holds that agents are found to lie only if they do.
func (w *world) blamed(f wire.Fault) {
	if strings.HasPrefix(f.Cause, "it sent what no agent sends") {
		require.Equal(w.t, w.liar.name(), f.Host, "%v", f)
	}
}
