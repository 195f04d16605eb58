package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// tools starts tool sessions and daemons while a job changes. Members of sessions run until they are killed. Other
// daemons exit at once. The root numbers sessions and orders in the order in which they are requested.
type tools struct {
	*World
	t        *testing.T
	asked    uint32
	op       map[uint32]uint32         // number of the newest collective of each session, by session ID
	released map[uint32]map[int]string // members released from it with their error texts, by session ID
}

func newTools(t *testing.T, w *World) *tools {
	x := &tools{World: w, t: t, op: map[uint32]uint32{}, released: map[uint32]map[int]string{}}
	w.cfg.Daemon = func(_ uint32, e flow.StartDaemons) time.Duration {
		if e.Count > 0 {
			return Forever
		}
		return 0
	}
	w.cfg.ToMember = func(_ uint32, e flow.TellMember) {
		m := e.Msg.(rankwire.Release)
		require.Equal(t, x.op[e.ID], m.Op)
		x.released[e.ID][int(e.Member)] = m.Trouble
	}
	return x
}

// open starts a session with one member for each node, or one for each rank. It returns the ID of the session.
func (x *tools) open(perRank bool) uint32 {
	x.asked++
	x.Session(flow.SessionAsked{ID: x.asked, PerRank: perRank, Argv: []string{"member"}})
	return x.asked
}

// exec starts a daemon on each node, and returns the ID of the order.
func (x *tools) exec() uint32 {
	x.asked++
	x.Exec(flow.DaemonsAsked{ID: x.asked, Argv: []string{"true"}})
	return x.asked
}

// members returns the agents of the running members of a session, keyed by the number of the member.
func (x *tools) members(id uint32) map[uint32]*agent {
	all := map[uint32]*agent{}
	for _, a := range x.agents {
		for d := range a.daemons {
			if d.id == id && !a.dead && !a.done {
				require.NotContains(x.t, all, d.number)
				all[d.number] = a
			}
		}
	}
	return all
}

// join lets all running members of a session join a barrier.
func (x *tools) join(id uint32) {
	x.op[id]++
	x.released[id] = map[int]string{}
	for number, a := range x.members(id) {
		x.post(0, a, flow.MemberFrame{ID: id, Member: job.Slot(number),
			Msg: rankwire.Collect{Op: x.op[id], What: rankwire.Barrier}})
	}
}

// joined requires that n members were released from the barrier, all with the error text trouble.
func (x *tools) joined(id uint32, n int, trouble string) {
	x.t.Helper()
	require.Len(x.t, x.members(id), n)
	require.Len(x.t, x.released[id], n)
	for number, why := range x.released[id] {
		if trouble == "" {
			require.Empty(x.t, why, "session %d, member %d", id, number)
		}
		require.Contains(x.t, why, trouble, "session %d, member %d", id, number)
	}
}

// answered returns the result of the order id, which must have ended.
func (x *tools) answered(id uint32) flow.DaemonsOver {
	x.t.Helper()
	for _, e := range x.Ends {
		if e.ID == id {
			return e
		}
	}
	require.Fail(x.t, fmt.Sprintf("order %d is not answered", id))
	return flow.DaemonsOver{}
}

// ran requires that the order id has run n daemons and has lost the given number of others.
func (x *tools) ran(id uint32, n, lost int) {
	x.t.Helper()
	e := x.answered(id)
	require.Equal(x.t, [3]uint32{uint32(n), 0, uint32(lost)}, [3]uint32{e.Daemons, e.Over, e.Lost}, "%+v", e)
}

// Sessions live on while their job grows and shrinks: those that came before have the members that
// they had, and are told if one leaves. What is asked while a change waits means the nodes that the
// job has then; after it, also those that have the numbers of nodes that left before.
func TestToolsOfResizingJob(t *testing.T) {
	for _, shape := range []string{"flat", "kary:2", "chain"} {
		t.Run(shape, func(t *testing.T) {
			const nodes = 8
			s := newSized(t, nodes, 2, shape)
			x := newTools(t, s.World)
			use := func(n int) {
				var id, beside, exec uint32
				s.then(func() { id, beside, exec = x.open(false), x.open(true), x.exec() })
				s.then(func() { x.join(id); x.join(beside) })
				s.then(func() {
					x.joined(id, n, "")
					x.joined(beside, 2*n, "")
					x.ran(exec, n, 0)
					s.post(0, s.root, flow.DaemonsLeft{ID: id})
					s.post(0, s.root, flow.DaemonsLeft{ID: beside})
				})
			}
			works := func(id *uint32, n int, trouble string) {
				s.then(func() { x.join(*id) })
				s.then(func() { x.joined(*id, n, trouble) })
			}
			const leaves = "ended before all had joined"
			var first, second uint32
			s.hello(0)
			s.collective(rankwire.Resizing)
			s.then(func() { first = x.open(false) })
			works(&first, nodes, "")

			s.then(func() { s.Resize(core.ResizeAsked{ID: 1, Hosts: hosts(2)}) })
			use(nodes) // while it waits
			s.collective(rankwire.Resizing)
			s.then(func() { s.nodes += 2 })
			s.hello(nodes)
			works(&first, nodes, "")
			use(nodes + 2)
			s.then(func() { second = x.open(false) })
			works(&second, nodes+2, "")

			s.then(func() { s.Resize(core.ResizeAsked{ID: 2, Shrink: 6}) })
			use(nodes + 2)
			s.collective(rankwire.Resizing)
			s.collective(rankwire.Resizing)
			s.then(func() {
				s.Leave(4, 10)
				s.nodes = 4
			})
			works(&first, 4, leaves)
			works(&second, 4, leaves)
			use(4)
			late := job.Run{Prefix: "late", Width: 1, Lo: 1, Count: 2}
			s.then(func() { s.Resize(core.ResizeAsked{ID: 3, Hosts: []job.Run{late}}) })
			use(4)
			s.collective(rankwire.Resizing)
			s.then(func() { s.nodes += 2 })
			use(6)
			s.then(func() { s.Leave(0, s.nodes) })
			s.complete(t, time.Hour)
			for _, r := range s.Reports {
				_, failed := r.(wire.Fault)
				require.False(t, failed, "%v", r)
			}
		})
	}
}

// Sessions beside a job that lets ranks start again and repairs its tree. A rank that starts again
// changes nothing for the members of nodes. With an agent its node and those below are lost to what
// was open, whose other members are told; what is asked when the ranks have started again has all
// nodes, under their new parents as well.
func TestToolsOfRepairedJob(t *testing.T) {
	for _, shape := range []string{"flat", "kary:2", "chain"} {
		t.Run(shape, func(t *testing.T) {
			const nodes, lost = 12, 1
			cfg := plan(nodes, 2, shape)
			cfg.Job.Launch.Repair, cfg.Job.Launch.Restarts, cfg.Policy.MaxRestarts = true, true, 100
			cfg.Silent = func(uint32) bool { return true }
			w := New(cfg)
			x := newTools(t, w)
			at := 5 * time.Second
			then := func(f func()) {
				at += time.Second
				w.At(at, f)
			}
			var first, during, after, beside, exec uint32
			then(func() { first = x.open(false) })
			then(func() { w.exit(w.agents[5], 10, job.Status{Kind: job.Signaled, Code: 9}) })
			then(func() {
				require.Equal(t, uint8(1), w.Starts[10])
				x.join(first)
			})
			then(func() { x.joined(first, nodes, "") })

			then(func() { w.Kill(lost) })
			w.At(at+time.Millisecond, func() { during = x.exec() })
			then(func() {
				e := x.answered(during)
				require.Equal(t, uint32(nodes), e.Daemons+e.Lost, "%+v", e)
				require.Positive(t, e.Lost)
			})
			at += 30 * time.Second
			then(func() {
				require.Equal(t, 2, w.Spawned[lost])
				left := x.members(first)
				require.NotEmpty(t, left)
				x.join(first)
			})
			then(func() { x.joined(first, len(x.members(first)), "ended before all had joined") })
			then(func() { after, beside, exec = x.open(false), x.open(true), x.exec() })
			then(func() { x.join(after); x.join(beside) })
			then(func() {
				x.joined(after, nodes, "")
				x.joined(beside, 2*nodes, "")
				x.ran(exec, nodes, 0)
				w.Interrupt(15)
			})
			require.NoError(t, w.Run(time.Hour))
			require.Equal(t, core.CauseSignal, w.Outcome.Cause, "%v", w.Reports)
			require.Zero(t, len(x.members(after))+len(x.members(beside))+len(x.members(first)))
		})
	}
}

// After a spare has replaced a lost node, sessions can be started on the host of the spare. Orders for the lost host
// are refused.
func TestToolsOnSpare(t *testing.T) {
	cfg := plan(6, 2, "chain")
	cfg.Job.Launch.Restarts, cfg.Job.Launch.StartBarrier, cfg.Policy.MaxRestarts = true, true, 100
	cfg.Policy.Spares = spares(1)
	cfg.Silent = func(uint32) bool { return true }
	w := New(cfg)
	x := newTools(t, w)
	spare, lost := cfg.Policy.Spares.At(0).Host, cfg.Nodes.At(5).Host
	w.At(5*time.Second, func() { w.Kill(5) })
	w.At(60*time.Second, func() {
		require.Equal(t, 2, w.Spawned[5])
		x.asked += 2
		x.Session(flow.SessionAsked{ID: 1, On: []flow.MembersOn{{Host: lost, Count: 1}}, Argv: []string{"member"}})
		x.Session(flow.SessionAsked{ID: 2, On: []flow.MembersOn{{Host: spare, Count: 2}}, Argv: []string{"member"}})
	})
	w.At(61*time.Second, func() {
		require.Equal(t, "the job has no host "+lost, x.answered(1).Refused)
		require.Equal(t, []flow.SessionOpened{{ID: 2, On: []flow.MembersOn{{Host: spare, Count: 2}}}}, w.Sessions)
		require.Len(t, x.members(1), 2) // the root numbers this session 1, because it has refused the other one
		w.Interrupt(15)
	})
	require.NoError(t, w.Run(time.Hour))
}
