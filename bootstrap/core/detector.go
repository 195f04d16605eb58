package core

import (
	"time"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
)

// The failure detector. A link that is idle carries a heartbeat, so silence has
// a meaning: from lookFrom on this machine's kernel is asked what became of what was sent, and at
// hostTimeout the host is cut off or dead if that is not acknowledged. If it is,
// the agent there has until agentTimeout: it may be stopped or starved.
// docs/dev/protocol.md, "Failure detector"; the promises are in docs/faults.md.
const (
	heartbeatEvery = recovery.Heartbeat
	lookFrom       = 5 * time.Second
	hostTimeout    = 10 * time.Second
	lostAfter      = 7 * time.Second // for children, if the job restarts ranks; tolerates interruptions of 5 s
	agentTimeout   = recovery.AgentTimeout
	period         = time.Second // between looks at the links
)

// What is not acknowledged. The third retransmission in a row comes 1.4 s after the
// first loss at the least. A packet that does not even leave this machine is not
// counted as one: then nothing has moved for as long as two heartbeats.
const (
	resentMost = 3
	stuckMost  = 2 * heartbeatEvery
)

// Signals the core itself knows, by their Linux numbers.
const (
	sigInt  = 2
	sigKill = 9
	sigTerm = 15
	sigCont = 18
	sigTstp = 20
	sigPipe = 13
)

func (c *Core) life(l Link) *life {
	if l == Up {
		return &c.clock.up
	}
	return &c.children[l].life
}

// hasLink reports whether this agent has a link to the neighbour l.
func (c *Core) hasLink(l Link) bool {
	if l == Up {
		return c.clock.linked
	}
	return c.children[l].In(child.Linked)
}

// wakeAt asks for a Tick at t at the latest.
func (c *Core) wakeAt(t time.Duration) {
	if c.clock.fixed == 0 || t < c.clock.fixed {
		c.clock.fixed = t
	}
}

// arm keeps one timer running while there is anything to watch: an agent has a
// parent before it has a job.
func (c *Core) arm() {
	if c.stage == idle && c.cfg.Root || c.stage == done {
		return
	}
	at := c.clock.next
	if at == 0 { // one that is due is not put off by what else happens then
		at = c.now + period
	}
	if f := c.clock.fixed; f > 0 && f < at {
		at = max(f, c.now)
	}
	if at != c.clock.next {
		c.clock.next = at
		c.do(SetTimer{at})
	}
}

func (c *Core) tick() {
	k := &c.clock
	if late := c.now - k.next; k.next > 0 && late > period {
		c.excuse(late)
	}
	k.next = 0
	if k.fixed > 0 && k.fixed <= c.now {
		k.fixed = 0
	}
	c.watch(Up)
	for i := range c.children {
		c.watch(Link(i))
	}
	c.reportSlow()
	c.checkDeadlines()
}

// excuse extends everybody's timeouts by the time this agent itself was late:
// what it did not hear then, nobody may be blamed for. In a job that restarts ranks this is not for
// its parent: the root starts ranks of an agent that hears nothing elsewhere, by the clock
// (decision 0020). A parent that is there has been heard meanwhile by this machine's kernel.
func (c *Core) excuse(by time.Duration) {
	if c.job == nil || !c.job.Launch.Restarts {
		c.clock.up.received = min(c.clock.up.received+by, c.now)
	}
	for i := range c.children {
		c.children[i].received = min(c.children[i].received+by, c.now)
	}
}

func (c *Core) watch(l Link) {
	k := c.life(l)
	if !c.hasLink(l) {
		return
	}
	if c.now-k.sent >= heartbeatEvery {
		c.send(l, wire.Heartbeat{})
	}
	switch silent := c.now - k.received; {
	case silent >= agentTimeout && !c.clock.stopped:
		c.cut(l, "its host answers but its agent has been silent for 60 s")
	case silent >= lookFrom && !k.asked:
		k.asked = true
		c.do(Probe{l})
		most, _ := c.hostPatience(l)
		if due := k.received + most; due > c.now {
			c.wakeAt(due)
		}
	}
}

func (c *Core) probed(ev Probed) {
	k := c.life(ev.Link)
	k.asked = false
	most, cause := c.hostPatience(ev.Link)
	if c.hasLink(ev.Link) && ev.Known && k.unanswered(c.now, ev) && c.now-k.received >= most {
		c.cut(ev.Link, cause)
	}
}

// hostPatience is how long a host may be silent, and the cause of its loss.
func (c *Core) hostPatience(l Link) (most time.Duration, cause string) {
	if l != Up && c.job != nil && c.job.Launch.Restarts && c.stage == running {
		return lostAfter, recovery.HostLost
	}
	return hostTimeout, recovery.HostSilent
}

// silence is how long a child has been silent, in milliseconds, where that matters.
func (c *Core) silence(d time.Duration) uint32 {
	if !c.job.Launch.Restarts {
		return 0
	}
	return ms(d)
}

// unanswered reports whether the far kernel does not acknowledge what is sent.
func (k *life) unanswered(now time.Duration, ev Probed) bool {
	if k.stuck < k.received || ev.Acked != k.acked {
		k.stuck = 0
	}
	k.acked = ev.Acked
	switch {
	case !ev.Waits:
		k.stuck = 0
	case k.stuck == 0:
		k.stuck = now
	}
	return ev.Resent >= resentMost || k.stuck > 0 && now-k.stuck >= stuckMost
}

// cut gives up a link that is silent.
func (c *Core) cut(l Link, cause string) {
	c.do(CloseLink{l})
	c.repair.cutting = true
	c.linkLost(LinkLost{Link: l, Cause: cause})
	c.repair.cutting = false
}

func (c *Core) linkLost(ev LinkLost) {
	if ev.Link == Up {
		if c.repairs() && c.stage == running && c.starts.readied { // this agent may get another parent
			c.wait()
		} else {
			c.orphaned(ev.Cause == recovery.HostSilent)
		}
		return
	}
	c.happen(ev.Link, c.lossOf(&c.children[ev.Link]), ev)
}
