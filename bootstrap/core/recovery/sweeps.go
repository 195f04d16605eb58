package recovery

import (
	"fmt"
	"time"

	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// The root sweeps each node whose agent has not reported how its ranks ended: it kills the processes that are left
// there, by a session of its own, because reaper and agent may have been killed at the same time
// (docs/dev/decisions/0022-containment.md).
const (
	minSweepPatience    = 5 * time.Second        // minimum time that a session and its sweep may take
	silentSweepPatience = 2 * time.Second        // the same for a host that has not answered
	sweepSlack          = 500 * time.Millisecond // for the driver to report that the time is over
	maxSweeping         = 16                     // sessions at the same time
	maxSwept            = 64                     // nodes that are swept because an agent above them was lost
	orphanGrace         = 2 * time.Second        // maximum grace of ranks whose agent is ending them meanwhile
)

// sweepBelow says whether agents below lost agents may be lost, whose nodes are then swept at the end of the job.
type sweepBelow uint8

const (
	noneBelow   sweepBelow = iota
	lostBelow              // they were lost with an agent
	silentBelow            // they have not reported in time
	sweptBelow             // their nodes are being swept
)

// sweeps is the root's record of the nodes that it sweeps.
type sweeps struct {
	known   map[job.NodeIndex]bool
	queue   []SweepNode
	running map[job.NodeIndex]bool
	below   sweepBelow
	until   time.Duration // the end of the job does not wait for sweeps any longer
	session time.Duration // how long a session is expected to take
}

// Patience returns how long to wait for something that took the time before when it was done first: twice that time,
// but at least least. The result is at most 15 s if least is less.
func Patience(least, before time.Duration) time.Duration {
	return max(least, min(2*before, 15*time.Second))
}

// sweepLost sweeps the node of a lost agent. An agent that reports its own loss ends its ranks itself.
func (m *Machine) sweepLost(f wire.Fault) {
	s, how := &m.root.sweeps, m.root.job.Launch
	switch {
	case f.Host == f.Parent:
		return
	case how.Contain: // the kernel has killed the processes, and a session would not see them
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

// sweepNode sweeps a node once, when there is room.
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

// swept handles the end of a sweep. Unless the node is replaced, the user is told what was found.
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

// sweepRest sweeps the nodes whose ranks are lost with an agent above them. ends tells how all ranks of the job have
// ended. If the time for sweeps is over, the user is told so.
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

// Swept reports whether the end of the job does not wait for sweeps.
func (m *Machine) Swept() bool {
	s := &m.root.sweeps
	return len(s.running)+len(s.queue) == 0 || m.now >= s.until
}
