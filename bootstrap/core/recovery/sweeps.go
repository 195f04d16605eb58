package recovery

import (
	"fmt"
	"time"

	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// The root sweeps nodes whose agents have not reported how their ranks ended. For each node it opens a separate session
// and kills the remaining processes of the job, because the reaper and the agent of the node may have been killed at
// the same time (docs/dev/decisions/0022-containment.md).
const (
	minSweepPatience    = 5 * time.Second        // least time limit of a session and its sweep
	silentSweepPatience = 2 * time.Second        // time limit if the host has not answered before
	sweepSlack          = 500 * time.Millisecond // additional time for the driver to report that the limit has passed
	maxSweeping         = 16                     // maximum number of sessions at the same time
	maxSwept            = 64                     // maximum number of swept nodes, if agents above them were lost
	orphanGrace         = 2 * time.Second        // maximum grace of the ranks that a sweep finds
)

// sweepBelow says whether agents below lost agents may be lost as well. The root sweeps their nodes at the end of the
// job.
type sweepBelow uint8

const (
	noneBelow   sweepBelow = iota // no such agent may be lost
	lostBelow                     // agents were lost with an agent above them
	silentBelow                   // children have not reported in time
	sweptBelow                    // sweeps of the nodes of these agents have been requested
)

// sweeps is the root's record of the nodes that it sweeps.
type sweeps struct {
	known   map[job.NodeIndex]bool // nodes whose sweep has been requested
	queue   []SweepNode            // sweeps that have not started, oldest first
	running map[job.NodeIndex]bool // nodes that are being swept
	below   sweepBelow
	until   time.Duration // time until which the end of the job waits for sweeps
	session time.Duration // expected duration of the start of a remote session
}

// Patience returns the time to wait for an operation whose previous run has taken the time before. The result is twice
// that time, but at most 15 s and at least least.
func Patience(least, before time.Duration) time.Duration {
	return max(least, min(2*before, 15*time.Second))
}

// sweepLost sweeps the node of a lost agent. It does nothing if the agent has reported its own loss, because such an
// agent ends its ranks itself.
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

// sweepNode sweeps a node, unless it was swept before. The sweep starts when fewer than maxSweeping sweeps are running.
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

// swept handles the end of a sweep. It tells the user what was found, unless the ranks of the node are to be restarted.
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

// sweepRest sweeps the nodes whose ranks are lost with an agent above them. ends contains the exit statuses of the
// ranks. If sweeps have not ended in time, it tells the user.
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
