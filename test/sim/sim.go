// Package sim runs whole jobs of production cores in one process. Messages
// pass through the production codec; time is virtual; what would be a system
// call is answered by the simulation. It has no goroutines, so a run is a
// function of its arguments and any failure can be replayed.
package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/reaper"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
)

// Config is one simulated job.
type Config struct {
	Job     *job.Job
	Nodes   job.Nodes
	Here    int // -1: the root's machine is not in the list
	Policy  core.Policy
	Session time.Duration // from StartChild to ChildUp, when its turn comes
	Turn    time.Duration // of a session at its parent, which attends to one at a time
	Cores   int           // of a parent that adjusts its window; 0: none does. Turn is on one of them
	Start   time.Duration // of a rank, one after the other on a node
	Hop     time.Duration // a message's time on a link
	Run     time.Duration // a rank's life, when it ends by itself
	Seed    uint64
	// Status says how a rank ends; nil: all exit 0.
	Status func(rank uint32) job.Status
	// Silent ranks run until they are killed.
	Silent func(rank uint32) bool
	// Stubborn ranks end by SIGKILL only.
	Stubborn bool
	// Began is called when the ranks of a node have started.
	Began func(node uint32)
	// ToRank gets what agents tell ranks; Sent what goes over the edge to a child.
	ToRank func(node, rank uint32, m frame.Message)
	Sent   func(edge uint32, up bool, m frame.Message)
	// Give is what a node has for a bulk fetch; BulkFetched gets what all have given.
	Give        func(node, fence uint32) []byte
	BulkFetched func(node, fence uint32, values frame.Values)
	// Mute reports whether a node does not answer questions.
	Mute func(node uint32) bool
	// Takes replaces Session. It returns the duration of opening a session,
	// and whether the session opens. The root's own machine is host "root".
	Takes func(parent, host string) (time.Duration, bool)
	// Jitter is the maximum delay of a message in addition to Hop. Messages of one link keep their order.
	Jitter time.Duration
	// Resumed is called when a rank of a node may print again.
	Resumed func(node uint32, e core.Resume)
	// Daemon returns how long the daemons of an order run on a node. If Daemon is nil, they exit at once.
	Daemon func(node uint32, e flow.StartDaemons) time.Duration
	// ToMember is called for each message from an agent to a member of a session.
	ToMember func(node uint32, e flow.TellMember)
	// Stepped is called after each step of an agent.
	Stepped func(a *agent, ev core.Event, effects []core.Effect)
}

// World is a job under way.
type World struct {
	cfg     Config
	now     time.Duration
	agents  map[uint32]*agent   // by node; root apart
	before  map[uint32][]*agent // that others have replaced
	root    *agent
	queue   events
	seq     uint64
	rand    *rand.Rand
	stop    time.Duration
	Outcome *core.Outcome
	// Sent counts messages by kind, for all links together.
	Sent map[frame.Kind]int
	// Bytes counts the bytes of all frames between agents, by kind. RootBytes counts only the
	// bytes of frames that the root sends or receives.
	Bytes     map[frame.Kind]uint64
	RootBytes map[frame.Kind]uint64
	Reports   []any
	Answers   []wire.Reply // answers that the root has received to its queries
	Ends      []flow.DaemonsOver
	Sessions  []flow.SessionOpened
	Printed   int // bytes of daemons' output that callers have received
	Resizes   []core.ResizeTold
	Ready     time.Duration // time at which the root learned that all ranks run; 0 if it has not
	Depth     int
	// Spawned counts, by node, how often a node's ranks were started; Up is when the
	// session to a host came up.
	Spawned map[uint32]int
	Stopped map[uint32]bool // nodes whose ranks are stopped
	// Strays counts, by node, the processes of ranks that survived because the agent and its
	// reaper died. A sweep of the node kills them.
	Strays map[uint32]uint32
	Starts map[uint32]uint8 // by rank: how often it was restarted
	Up     map[string]time.Duration
	Events int
}

type agent struct {
	node     uint32 // of the subtree's head
	core     *core.Core
	parent   *agent
	slot     core.Link // this agent among the parent's children
	children map[core.Link]*agent
	index    map[core.Link]uint32
	timer    uint64
	turn     time.Duration // when it can attend to another session
	observed time.Duration // when it last looked at its sessions
	link     state
	dead     bool
	frozen   time.Duration // until when; its events wait, its timers fire late
	done     bool
	host     string
	rank     job.Node
	alive    map[uint32]bool
	daemons  map[daemon]bool // that run
	depth    int
	level    uint32             // of the parent
	links    uint64             // to parents that it has had before
	joining  map[core.Link]bool // sessions to agents that have lost their parent
}

type event struct {
	at   time.Duration
	seq  uint64
	to   *agent
	ev   core.Event
	when func() // instead of ev
	tick uint64 // timer generation; 0: not a timer
	link uint64 // by which of an agent's links to a parent it comes, from 1; 0: by none
}

// events is a heap, the earliest first. It is not container/heap's, which makes
// garbage of each event that it takes.
type events []event

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

func (q *events) push(e event) {
	h := append(*q, e)
	*q = h
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (q *events) pop() event {
	h := *q
	first, last := h[0], len(h)-1
	h[0] = h[last]
	h[last] = event{}
	h = h[:last]
	*q = h
	for i := 0; ; {
		least := 2*i + 1
		if least >= last {
			return first
		}
		if right := least + 1; right < last && h[right].before(&h[least]) {
			least = right
		}
		if !h[least].before(&h[i]) {
			return first
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// checks reports whether each core checks its invariants after each step. Worlds with more than 512 nodes do not,
// because the time of a check grows with the number of children.
func (w *World) checks() bool { return w.cfg.Nodes.Len() <= 512 }

// New returns a world in which no event has happened yet.
func New(cfg Config) *World {
	w := &World{
		cfg: cfg, agents: map[uint32]*agent{}, before: map[uint32][]*agent{}, rand: rand.New(rand.NewPCG(cfg.Seed, 1)),
		Sent: map[frame.Kind]int{}, Bytes: map[frame.Kind]uint64{},
		RootBytes: map[frame.Kind]uint64{}, Spawned: map[uint32]int{}, Stopped: map[uint32]bool{},
		Strays: map[uint32]uint32{}, Starts: map[uint32]uint8{},
		Up: map[string]time.Duration{},
	}
	w.root = &agent{host: "root", core: core.New(core.Config{Root: true, Host: "root", Here: cfg.Here,
		Policy: cfg.Policy, Join: join, Cores: cfg.Cores, Check: w.checks()})}
	w.post(0, w.root, core.Begin{Launch: wire.Launch{Job: cfg.Job, Nodes: cfg.Nodes}})
	return w
}

func (w *World) post(after time.Duration, to *agent, ev core.Event) {
	w.push(event{at: w.now + after, to: to, ev: ev})
}

func (w *World) push(e event) {
	w.seq++
	e.seq = w.seq
	w.queue.push(e)
}

// At runs f at time t.
func (w *World) At(t time.Duration, f func()) { w.push(event{at: t, when: f}) }

// Now is the virtual time since the start.
func (w *World) Now() time.Duration { return w.now }

// Run goes on until the root is done, and then until every agent is, or until
// the limit. It returns an error if anything of the job is left.
func (w *World) Run(limit time.Duration) error {
	for len(w.queue) > 0 {
		e := w.queue.pop()
		if e.at > limit {
			break
		}
		if e.to != nil && (e.to.dead || e.to.done) {
			continue
		}
		w.now = e.at
		w.Events++
		if e.when != nil {
			e.when()
			continue
		}
		w.deliver(e)
	}
	if w.Outcome == nil {
		return fmt.Errorf("at %v the root is not done", w.now)
	}
	for n, a := range w.agents {
		for _, a := range append([]*agent{a}, w.before[n]...) {
			if !a.done && !a.dead || len(a.alive)+len(a.daemons) > 0 {
				return fmt.Errorf("at %v node %d still has an agent, %d ranks or %d daemons", w.now, n, len(a.alive),
					len(a.daemons))
			}
		}
	}
	for n, left := range w.Strays {
		if left > 0 {
			return fmt.Errorf("at %v node %d still has %d strays", w.now, n, left)
		}
	}
	return nil
}

func (w *World) deliver(e event) {
	a := e.to
	if a.dead || a.done || e.tick != 0 && e.tick != a.timer || e.link != 0 && e.link != a.links+1 {
		return
	}
	if a.frozen > w.now {
		e.at = a.frozen
		w.push(e)
		return
	}
	effects := a.core.Step(w.now, e.ev)
	if w.cfg.Stepped != nil {
		w.cfg.Stepped(a, e.ev, effects)
	}
	for _, eff := range effects {
		w.perform(a, eff)
	}
}

// Kill is SIGKILL to the agent of a node; its reaper kills the ranks.
func (w *World) Kill(node uint32) { w.kill(w.agents[node]) }

// KillBoth is SIGKILL to the agent of a node and its reaper in the same instant: the ranks
// die with them, and what forked away from them does not.
func (w *World) KillBoth(node uint32) {
	if a := w.agents[node]; a != nil && !a.dead && !a.done {
		w.Strays[node] = uint32(len(a.alive))
	}
	w.Kill(node)
}

// KillReaper is SIGKILL to the reaper of a node.
func (w *World) KillReaper(node uint32) {
	if a := w.agents[node]; a != nil {
		w.post(0, a, core.ReaperLost{})
	}
}

// KillRoot is SIGKILL to the root.
func (w *World) KillRoot() {
	w.Outcome = &core.Outcome{Code: -1}
	w.kill(w.root)
}

func (w *World) kill(a *agent) {
	if a == nil || a.dead || a.done {
		return
	}
	a.dead = true
	clear(a.alive)
	clear(a.daemons)
	w.part(a)
}

// part tells the neighbours of an agent that its process is gone.
func (w *World) part(a *agent) {
	if at, comes := w.arrival(a, true); a.parent != nil && comes {
		w.push(event{at: at, to: a.parent, ev: core.LinkLost{Link: a.slot, Cause: "the session ended"}})
	}
	for _, slot := range slices.Sorted(maps.Keys(a.children)) { // a run is a function of its arguments
		w.orphan(a.children[slot])
	}
}

// orphan ends the link that an agent has to its parent. Its reaper sees that, too.
func (w *World) orphan(a *agent) {
	if a.dead || a.done {
		return
	}
	at, comes := w.arrival(a, false)
	if !comes {
		return
	}
	links := a.links
	if a.parent != nil {
		w.push(event{at: at, to: a, ev: core.LinkLost{Link: core.Up, Cause: "end of file"}, link: links + 1})
	}
	w.reaperKills(a, at-w.now+reaper.LinkPatience, func() bool { return a.links == links })
}

// reaperKills lets an agent's reaper look at it after a time, if it still lives then.
func (w *World) reaperKills(a *agent, after time.Duration, must func() bool) {
	w.push(event{at: w.now + after, to: a, when: func() {
		if must() {
			w.kill(a)
		}
	}})
}

// Freeze stops the loop of a node's agent for a time; its kernel answers, and its
// reaper sees it.
func (w *World) Freeze(node uint32, d time.Duration) {
	a := w.agents[node]
	if a == nil {
		return
	}
	a.frozen = w.now + d
	w.reaperKills(a, reaper.StopPatience, func() bool { return a.frozen > w.now })
}

// Agent reports whether a node's agent runs.
func (w *World) Agent(node uint32) bool {
	a := w.agents[node]
	return a != nil && !a.dead && !a.done
}

// FromRank lets a rank say something to its agent, now.
func (w *World) FromRank(node, rank uint32, m frame.Message) {
	w.deliver(event{to: w.agents[node], ev: core.RankFrame{Rank: job.Slot(rank), Msg: m}})
}

// Post lets something happen at a node, after what happens now.
func (w *World) Post(node uint32, ev core.Event) { w.post(0, w.agents[node], ev) }

// Stop is Ctrl-Z, and fg when the root has been stopped for a time.
func (w *World) Stop(d time.Duration) {
	w.stop = d
	w.Interrupt(20)
}

// suspend stops the root. SIGCONT is the first that it hears of when it goes on,
// but for what it has not taken yet.
func (w *World) suspend() {
	w.root.frozen = w.now + w.stop
	w.At(w.root.frozen, func() { w.Interrupt(18) })
}

// Interrupt sends the root a signal.
func (w *World) Interrupt(signal uint8) { w.post(0, w.root, core.Interrupted{Signal: signal}) }
