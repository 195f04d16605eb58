package recovery

import (
	"math"
	"slices"
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// nodeStage is the progress of a Recall on this node and in its subtree.
type nodeStage uint8

const (
	nodeRuns     nodeStage = iota // no Recall has arrived, or all ranks have been ordered to start again since
	nodeStops                     // the ranks have received SIGTERM
	nodeEmptying                  // an EmptyNode is in progress
	nodeReaps                     // all ranks were killed, but the core has not seen the exit of some yet
	nodeStuck                     // some processes survived SIGKILL, and the parent has been told
	nodeEmpty                     // no process of this node's ranks is left
	nodeRecalled                  // no process of any rank of the subtree is left, and the parent has been told
)

// node is the state of restarts on this node. The fields recall, children and serial contain serial numbers of orders,
// where 0 means none.
type node struct {
	stage    nodeStage
	recall   uint32        // newest Recall
	killAt   time.Duration // time at which the grace of that Recall ends
	children []uint32      // newest Recall that each child's subtree has completed, by subtree.Link
	starts   []start       // ranks of this node; empty before NodeStarted, or if the job restarts no ranks
	failed   uint32        // number of ranks that have failed and were not started again
	fences   int           // number of Fence effects in progress
	serial   uint32        // newest Respawn of all ranks of the job, or of the first start of this node
	starting uint32        // number of ranks that the Respawn in serial starts and that do not run yet
	rested   int64         // serial number of the floor in the last Rest sent to this parent; -1 if none was sent
}

// progress is a set of conditions that hold for a failed rank. Each condition but the first prevents its restart.
type progress uint8

const (
	failed    progress = 1 << iota // the rank has failed, and was not started again
	unfenced                       // processes of the failed rank may exist
	undrained                      // output of the failed rank may not have been read completely
	unordered                      // no Respawn for the rank has arrived
)

// start is the state of one rank of this node. If lacks is 0, the rank runs, or it has ended and is not restarted. If
// failed is the only condition in lacks, the rank can be started again.
type start struct {
	lacks  progress
	stuck  string       // describes processes of the failed rank that survived SIGKILL; "" means none
	wanted wire.Respawn // newest order to start the rank again
}

// nodeEvent handles an event that concerns this node, or its links to the parent and children.
func (m *Machine) nodeEvent(ev Event) {
	n := &m.node
	switch ev := ev.(type) {
	case NodeStarted:
		if m.policy.Restarts() {
			n.starts = make([]start, m.below.Own.Count())
		}
	case RankFailed:
		*m.startOf(ev.Rank) = failedStart()
		n.failed++
		m.forget(ev.Rank)
		n.fences++
		m.do(Fence(ev))
	case RankRecalled:
		m.forget(ev.Rank)
	case RankFenced:
		n.fences--
		s := m.startOf(ev.Rank)
		s.lacks, s.stuck = s.lacks&^unfenced, ev.Left
	case RankDrained:
		if len(n.starts) > 0 {
			m.startOf(ev.Rank).lacks &^= undrained
		}
	case NodeEmptied:
		m.emptied(ev.Left)
	case ChildVacant:
		*m.recalledBy(ev.Child) = math.MaxUint32
	case NodeForked:
		m.recallAgain()
	case Relinked:
		n.rested = -1
	case RankRespawned:
		if m.recallAgain() {
			return
		}
		serial := m.startOf(ev.Rank).wanted.Serial
		m.sendRespawned(wire.Respawned{Serial: serial, First: ev.Rank, Count: 1, Code: ev.Code, Cause: ev.Cause})
	case NodeRespawned:
		msg := wire.Respawned{Serial: n.serial, First: m.below.Own.First(), Count: m.below.Own.Count()}
		if ev.Code != 0 {
			msg.First, msg.Count, msg.Code, msg.Cause = ev.Rank, 1, ev.Code, ev.Cause
		}
		n.starting = 0
		m.send(subtree.Up, msg)
	}
}

func (m *Machine) startOf(rank job.Slot) *start { return &m.node.starts[m.below.Own.Index(rank)] }

// forget discards the values that the ended program of a rank of this node has published. Look-ups of these values then
// wait for the rank's next program.
func (m *Machine) forget(rank job.Slot) {
	p := m.below.Own.Of(rank)
	p.Restart(p.Start())
	m.do(Forget{rank})
}

func failedStart() start { return start{lacks: failed | unfenced | undrained | unordered} }

// raise applies a floor and returns a Raise, so that the core applies it and sends it to ranks and children.
func (m *Machine) raise(floor wire.Floor) {
	if m.period == ending || !m.floors.Take(floor.Serial) {
		return
	}
	m.awake()
	if floor.Count == m.below.Layout.Ranks() {
		m.below.Floors.RaiseAll(floor.Epoch)
	} else {
		m.below.Floors.Raise(floor.First, floor.Count, floor.Epoch)
	}
	for rank, p := range m.below.Own.All() {
		if (Span{floor.First, floor.Count}).Has(rank) {
			p.Restart(job.StartOf(floor.Epoch))
		}
	}
	m.do(Raise{floor})
	m.floors.Here()
}

// awake records that ranks of this subtree may run again, so that no child counts as resting.
func (m *Machine) awake() {
	m.do(Awake{})
	for l := range subtree.Link(m.below.Children()) {
		m.below.Rest(l, false)
	}
}

// respawn handles an order to start ranks of this subtree. If the ranks of this node were never started, as on a new
// agent, they start at once. A failed rank starts when its old processes have ended and their output has been read.
func (m *Machine) respawn(order wire.Respawn) {
	n, span := &m.node, Span{order.First, order.Count}
	if n.stage == nodeRecalled && order.Count == m.below.Layout.Ranks() {
		n.become(nodeRuns)
	}
	m.do(PassRespawn{order})
	count := m.below.Own.Count()
	if count == 0 || m.period == ending {
		return
	}
	if len(n.starts) == 0 && span.Has(m.below.Own.First()) {
		n.serial, n.starting = order.Serial, count
		m.do(StartNode{})
		return
	}
	if order.Count == m.below.Layout.Ranks() && n.failed == count {
		n.serial, n.starting = order.Serial, count
		m.do(Renew{})
	}
	for i := range n.starts {
		if s := &n.starts[i]; span.Has(m.below.Own.First()+job.Slot(i)) && s.lacks != 0 {
			s.lacks, s.wanted = s.lacks&^unordered, order
		}
	}
}

// recall handles an order to end all ranks of this subtree, which are restarted later.
func (m *Machine) recall(order wire.Recall) {
	n := &m.node
	if m.period == ending || order.Serial <= n.recall {
		return
	}
	n.recall, n.killAt = order.Serial, m.now+time.Duration(order.GraceMs)*time.Millisecond
	m.awake()
	m.do(SendDown{order})
	if len(n.starts) == 0 {
		n.become(nodeEmpty)
		return
	}
	n.become(nodeStops)
	for i := range n.starts {
		n.starts[i] = failedStart()
	}
	n.failed = uint32(len(n.starts))
	m.do(ForgetReports{})
	if m.below.Own.Alive > 0 {
		m.do(Terminate{})
		m.do(Wake{n.killAt})
	}
}

func (n *node) become(s nodeStage) { n.stage = s }

// recallAgain ends ranks that were being started when a Recall arrived. It is called when their start is complete. It
// returns false if no Recall is ending the ranks of this node.
func (m *Machine) recallAgain() bool {
	if !m.Recalling() {
		return false
	}
	if m.node.stage == nodeReaps {
		m.node.become(nodeStops)
	}
	if m.below.Own.Alive > 0 {
		m.do(Terminate{})
	}
	return true
}

// continueRecall kills the processes of this node's ranks when all ranks have exited, or when the grace of a Recall is
// over. When no process of any rank of the subtree is left, it tells the parent.
func (m *Machine) continueRecall() {
	n := &m.node
	if m.period == ending || n.stage == nodeRuns || n.stage == nodeRecalled || n.stage == nodeStuck {
		return
	}
	late, alive := m.now >= n.killAt, m.below.Own.Alive > 0
	switch {
	case n.stage == nodeStops && (late || !alive), n.stage == nodeReaps && !alive:
		n.become(nodeEmptying)
		m.do(EmptyNode{})
	case n.stage != nodeEmpty && !late:
		m.do(Wake{n.killAt})
	}
	if n.stage != nodeEmpty || m.below.Own.Undrained > 0 || n.fences > 0 {
		return // if a rank started during a Fence, the Fence would kill its new processes, too
	}
	for l := range subtree.Link(m.below.Children()) {
		if !m.below.Ended(l) && *m.recalledBy(l) < n.recall {
			return
		}
	}
	n.become(nodeRecalled)
	for i := range n.starts {
		n.starts[i].lacks &^= unfenced | undrained
	}
	m.tellRecalled("")
}

// emptied handles the completion of an EmptyNode. left describes the processes that survived SIGKILL.
func (m *Machine) emptied(left string) {
	switch n := &m.node; {
	case m.period == ending || n.stage != nodeEmptying:
	case left != "":
		n.become(nodeStuck)
		m.tellRecalled(left)
	case m.below.Own.Alive > 0:
		n.become(nodeReaps)
	default:
		n.become(nodeEmpty)
	}
}

// tellRecalled tells the parent that no process of this subtree's ranks is left. If some processes cannot be killed,
// why contains the reason. At the root, it tells the Director.
func (m *Machine) tellRecalled(why string) {
	if m.below.Root {
		m.decide(m.root.director.Recalled(m.node.recall, why))
	} else {
		m.send(subtree.Up, wire.Recalled{Serial: m.node.recall, Cause: why})
	}
}

// childRecalled handles the answer of a child's subtree to a Recall.
func (m *Machine) childRecalled(l subtree.Link, answer wire.Recalled) {
	switch {
	case answer.Serial < m.node.recall:
	case answer.Cause != "":
		m.tellRecalled(answer.Cause)
	default:
		*m.recalledBy(l) = answer.Serial
	}
}

// recalledBy returns a pointer to the serial number of the newest Recall that the subtree of the child l has completed.
func (m *Machine) recalledBy(l subtree.Link) *uint32 {
	n := &m.node
	if missing := int(l) + 1 - len(n.children); missing > 0 {
		n.children = append(n.children, make([]uint32, missing)...)
	}
	return &n.children[l]
}

// continueRestarts confirms the floors that the whole subtree has applied. It then starts each failed rank of this node
// that has been ordered to start, if its old processes have ended and their output has been read.
func (m *Machine) continueRestarts() {
	if serial, news := m.floors.News(); news {
		if m.below.Root {
			m.decide(m.root.director.Confirmed(serial))
		} else {
			m.send(subtree.Up, wire.FloorSet{Serial: serial})
		}
	}
	n := &m.node
	if n.failed == 0 || m.period == ending {
		return
	}
	for i := range n.starts {
		s, rank := &n.starts[i], m.below.Own.First()+job.Slot(i)
		switch {
		case s.lacks != failed:
		case s.stuck != "":
			m.send(subtree.Up, wire.Respawned{
				Serial: s.wanted.Serial, First: rank, Count: 1, Code: codeStuck, Cause: s.stuck,
			})
			s.lacks |= unordered
		default:
			s.lacks = 0
			n.failed--
			m.do(Refork{rank, job.StartOf(s.wanted.Epoch)})
		}
	}
}

// codeStuck is the exit code of a rank that cannot be restarted because its old processes survived SIGKILL.
const codeStuck = 125

// sendRespawned reports to the root that a rank runs or could not be started. If one Respawn has ordered all ranks of
// this node to start, it sends a single message when the last of them runs. It reports ranks that could not be started
// at once.
func (m *Machine) sendRespawned(msg wire.Respawned) {
	n := &m.node
	if msg.Code == 0 && n.starting > 0 && msg.Serial == n.serial {
		if n.starting--; n.starting > 0 {
			return
		}
		msg.First, msg.Count = m.below.Own.First(), m.below.Own.Count()
	}
	m.send(subtree.Up, msg)
}

// Rests reports whether this agent must not exit yet, because ranks of its subtree may be restarted. It is called when
// no rank of this node runs. The root rests as long as a child has not ended. Every other agent rests until the job
// ends.
func (m *Machine) Rests() bool {
	if m.period != alive || !m.policy.Restarts() {
		return false
	}
	return !m.below.Root || len(m.childrenLeft()) > 0
}

// childrenLeft returns the children that have not ended.
func (m *Machine) childrenLeft() (left []subtree.Link) {
	for l := range subtree.Link(m.below.Children()) {
		if !m.below.Ended(l) {
			left = append(left, l)
		}
	}
	return left
}

// rest handles a Quiet. If no rank runs in the subtrees of the children either, it sends Rest to the parent. At the
// root, it ends the job instead, unless a restart is under way or an abort is pending.
func (m *Machine) rest() {
	if !m.Rests() || slices.ContainsFunc(m.childrenLeft(), func(l subtree.Link) bool { return !m.below.Resting(l) }) {
		return
	}
	n := &m.node
	if m.below.Root {
		if m.root.director.Idle() && m.root.abortAt == 0 {
			m.do(EndQuietJob{})
		}
		return
	}
	if serial := m.floors.Taken(); n.rested != int64(serial) {
		n.rested = int64(serial)
		m.send(subtree.Up, wire.Rest{Serial: serial})
	}
}

// takeOver sets the state of an agent that has been started in place of a lost one. The earlier floors and Recalls were
// sent to the lost agent.
func (m *Machine) takeOver(s wire.Standing) {
	m.floors.Take(s.Serial)
	m.floors.Here()
	m.below.Floors.RaiseAll(s.Everyone)
	for _, f := range s.Floors {
		m.below.Floors.Raise(f.Rank, 1, f.Epoch)
	}
	m.node.recall = s.Recall
}
