package core

import (
	"iter"
	"time"

	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// times contains the times that an agent has recorded during the launch, relative to the arrival of its Launch. The
// root always records its sessions, because that needs no message. Other agents record only if the job is timed.
type times struct {
	on    bool           // times are recorded
	began time.Duration  // time at which this agent got its Launch
	own   *job.NodeTimes // times of this node; nil at the root, and at other agents if the job is not timed
}

// childTimes contains the known times of the launch of a child and of the agents below it.
type childTimes struct {
	head    job.NodeTimes // times of the child's session, as recorded by this agent
	below   wire.Timings  // times that the child has sent, with its own first; empty before that
	by, err time.Duration // offset from the child's times to those of this agent, and its maximum error
	missing uint32        // number of nodes below the child whose times did not fit into its message
}

// newTimes returns the times of an agent that runs on the node first and got its Launch at the time now. If on is
// false, nothing is recorded.
func newTimes(on, root bool, now time.Duration, first job.NodeIndex) times {
	t := times{on: on, began: now}
	if on && !root {
		own := job.NewNodeTimes(first)
		own.Mark(job.LaunchReceived, 0)
		t.own = &own
	}
	return t
}

// markOwn records now as the time of the moment m of this node.
func (t *times) markOwn(m job.Moment, now time.Duration) {
	if t.own != nil {
		t.own.Mark(m, now-t.began)
	}
}

// markChild records now as the time of the moment m of the session to the child k.
func (t *times) markChild(k *branch, m job.Moment, now time.Duration) {
	if !t.on {
		return
	}
	if k.times == nil {
		k.times = &childTimes{head: job.NewNodeTimes(k.head.First)}
		k.times.head.Local = k.local
		if t.own != nil {
			k.times.head.Parent = t.own.Node + 1
		}
	}
	k.times.head.Mark(m, now-t.began)
}

// take records the message m about a child's launch. now is the time since this agent got its own Launch. The times in
// m count from the moment at which the child got its Launch. That moment is at least sent, and at most now minus the
// time m.Span that the child needed before it sent m. take assumes the middle, with half of the interval as the error.
func (t *childTimes) take(now time.Duration, m wire.Times) {
	sent := t.head.At[job.LaunchSent]
	t.err = max(0, now-sent-m.Span) / 2
	t.by, t.below, t.missing = sent+t.err, m.Nodes, m.Missing
}

// nodes yields the times of a child and of the agents below it, relative to this agent's Launch. It returns false if
// yield has returned false.
func (t *childTimes) nodes(yield func(job.NodeTimes) bool) bool {
	head := true
	for n := range t.below.All() {
		n.Shift(t.by, t.err)
		if head {
			for _, of := range []job.Moment{job.LaunchReceived, job.ForkStarted, job.RanksStarted, job.ReadySent} {
				t.head.At[of] = n.At[of]
			}
			t.head.Error, head = n.Error, false
			n = t.head
		}
		if !yield(n) {
			return false
		}
	}
	return !head || yield(t.head)
}

// all returns the known times of this agent and of the nodes below it, parents before their children. missing is the
// number of nodes that did not fit into a message.
func (t *times) all(children []branch) (nodes iter.Seq[job.NodeTimes], missing uint32) {
	total := 0
	if t.own != nil {
		total++
	}
	for i := range children {
		if of := children[i].times; of != nil {
			total += max(1, of.below.Len())
			missing += of.missing
		}
	}
	most := min(total, wire.MaxTimes)
	return func(yield func(job.NodeTimes) bool) {
		left := most
		some := func(n job.NodeTimes) bool {
			left--
			return left >= 0 && yield(n)
		}
		more := t.own == nil || some(*t.own)
		for i := 0; i < len(children) && more; i++ {
			if of := children[i].times; of != nil {
				more = of.nodes(some)
			}
		}
	}, missing + uint32(total-most)
}

// report returns the message that this agent sends to its parent immediately before Ready.
func (t *times) report(now time.Duration, children []branch) wire.Times {
	t.markOwn(job.ReadySent, now)
	nodes, missing := t.all(children)
	return wire.Times{Span: now - t.began, Missing: missing, Nodes: wire.TimingsOf(nodes)}
}
