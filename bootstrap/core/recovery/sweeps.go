package recovery

import (
	"fmt"
	"time"

	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// The root sweeps the nodes of lost agents: it opens a separate session to each of these nodes and kills the remaining
// processes of the job. This is necessary because the agent and its reaper may have been killed at the same time
// (docs/dev/decisions/0022-containment.md).
const (
	minSweepPatience    = 5 * time.Second        // minimum time limit of a session and its sweep
	silentSweepPatience = 2 * time.Second        // time limit if the host or the agent has not answered before
	sweepSlack          = 500 * time.Millisecond // additional time for the driver to report that the limit has passed
	maxSweeping         = 16                     // maximum number of sessions at the same time
	maxSwept            = 64                     // limit of queued sweeps up to which sweepRest adds more
	orphanGrace         = 2 * time.Second        // maximum grace of the ranks that a sweep finds
)

// sweepBelow says whether agents may be lost without a report for each of them, because they are below a lost or silent
// agent. The root sweeps their nodes at the end of the job.
type sweepBelow uint8

const (
	noneBelow   sweepBelow = iota // no agent may be lost without a report
	lostBelow                     // an agent was lost together with the agents below it
	silentBelow                   // children of the root have not reported in time how their ranks ended
	sweptBelow                    // sweeps of the nodes of these agents have been requested
)

// sweeps is the root's record of the nodes that it sweeps.
type sweeps struct {
	known   map[job.NodeIndex]bool // nodes that were queued for a sweep, including those already swept
	queue   []SweepNode            // sweeps that have not started, oldest first
	running map[job.NodeIndex]bool // nodes that are being swept
	below   sweepBelow
	until   time.Duration // time until which the end of the job waits for sweeps
	session time.Duration // expected duration of the start of a remote session
}

// Patience returns the time to wait for an operation. before is the time that it took in the past. The result is twice
// that time, limited to 15 s, or the parameter least if that is longer.
func Patience(least, before time.Duration) time.Duration {
	return max(least, min(2*before, 15*time.Second))
}

// sweepLost sweeps the node of a lost agent. f describes the loss. If the agent has reported its own loss, sweepLost
// does nothing, because such an agent ends its ranks itself.
func (m *Machine) sweepLost(f wire.Fault) {
	s, how := &m.root.sweeps, m.root.job.Launch
	switch {
	case f.Host == f.Parent:
		return
	case how.Contain: // the kernel has killed the processes, and a session could not see them
		return
	case how.StartBarrier && !m.root.director.open: // no rank has started
		return
	}
	patience := Patience(minSweepPatience, s.session)
	if isSilent(f) {
		patience = silentSweepPatience
	}
	if f.Nodes > 1 {
		s.becomeBelow(lostBelow)
	}
	m.sweepNode(f.Node, patience)
}

func (s *sweeps) becomeBelow(b sweepBelow) { s.below = max(s.below, b) }

// sweepNode queues the sweep of a node, unless it was queued before. patience is the time limit of the sweep. The sweep
// starts when fewer than maxSweeping sweeps are running.
func (m *Machine) sweepNode(index job.NodeIndex, patience time.Duration) {
	s := &m.root.sweeps
	if s.known[index] {
		return
	}
	s.known[index] = true
	node, local := m.root.members.At(index)
	s.queue = append(s.queue, SweepNode{
		Node: node, Index: index, Local: local, Grace: min(m.root.job.Launch.Grace, orphanGrace), Most: patience,
	})
	s.until = max(s.until, m.now+patience+sweepSlack)
	m.do(Wake{s.until})
	m.startSweeps()
}

func (m *Machine) startSweeps() {
	s := &m.root.sweeps
	for ; len(s.queue) > 0 && len(s.running) < maxSweeping; s.queue = s.queue[1:] {
		s.running[s.queue[0].Index] = true
		m.do(s.queue[0])
	}
}

// swept handles the result of a sweep. If the ranks of the node are to be restarted, placeSwept uses the result.
// Otherwise swept tells the user what the sweep has found, or why it has failed.
func (m *Machine) swept(ev NodeSwept) {
	delete(m.root.sweeps.running, ev.Index)
	if p := m.root.places[ev.Index]; p != nil && m.period == alive {
		m.placeSwept(p, ev)
		m.startSweeps()
		return
	}
	node, _ := m.root.members.At(ev.Index)
	switch {
	case ev.Cause != "":
		m.notice(node.Host, fmt.Sprintf("nobody could look whether processes of this job are left here: %s; "+
			"hint: ssh %s grep -lzs IBRUN_JOB_ID=%s /proc/*/environ", ev.Cause, node.Host, m.root.job.ID))
	case ev.Killed > 0:
		m.notice(node.Host,
			fmt.Sprintf("killed what the lost agent of this node had left (processes: %d)", ev.Killed))
	}
	if ev.Left != "" {
		m.notice(node.Host, ev.Left)
	}
	m.startSweeps()
}

// sweepRest handles Sweeping. On the first call, it sweeps the nodes below lost or silent agents, if there are any.
// They are the nodes of the ranks that have the status Lost in ends. If sweeps have not ended in time, it tells the
// user.
func (m *Machine) sweepRest(ends []job.StatusRun) {
	s := &m.root.sweeps
	patience := Patience(minSweepPatience, s.session)
	switch s.below {
	case noneBelow, sweptBelow:
		ends = nil
	case silentBelow:
		patience = silentSweepPatience
	}
	if s.below != noneBelow {
		s.becomeBelow(sweptBelow)
	}
	for _, run := range ends {
		if run.Status.Kind != job.Lost {
			continue
		}
		l := m.below.Layout
		first, last := l.NodeOf(run.First), l.NodeOf(run.First+job.Slot(run.Count)-1)
		for node := first; node <= last && len(s.known) < maxSwept; node++ {
			m.sweepNode(node, patience)
		}
	}
	switch late := len(s.running) + len(s.queue); {
	case late == 0:
	case m.now < s.until:
		m.do(Wake{s.until})
	default:
		m.notice(m.root.host, "there was no time to look whether processes of this job are left on "+
			plain.Plural(late, "node"))
	}
}

// Swept reports whether all sweeps have ended or their time has passed, so that the job may end.
func (m *Machine) Swept() bool {
	s := &m.root.sweeps
	return len(s.running)+len(s.queue) == 0 || m.now >= s.until
}
