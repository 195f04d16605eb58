package agent

import (
	"ibrun/bootstrap/control"
	"ibrun/bootstrap/core"
	"ibrun/internal/hostlist"
	"ibrun/internal/job"
)

// resized notes that the job has another layout.
func (r *rootSide) resized(e core.JobResized) {
	r.cfg.Job = e.Job
	r.ccs.resized(e.Job.Layout)
	if r.control != nil {
		r.control.job.Store(e.Job)
	}
}

// told gives news of a change of the job's size to its caller.
func (c *controlSide) told(e core.ResizeTold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait := c.changes[e.ID]; wait != nil {
		wait <- e
		if e.Over {
			delete(c.changes, e.ID)
		}
	}
}

// resize asks for a change of the job's size, and tells the caller how far it is. The change goes
// on without the caller.
func (c *controlSide) resize(r control.Request, put func(control.Response) error, gone <-chan struct{}) {
	refuse := func(why string) { _ = put(control.Response{Error: why, Done: true}) }
	ask := core.ResizeAsked{ID: c.tickets.Add(1), Shrink: r.Nodes}
	if r.Verb == "grow" {
		list, err := hostlist.Inline(r.Hosts)
		if err != nil || len(list) == 0 {
			refuse("grow needs hosts")
			return
		}
		ask.Shrink = 0
		for _, e := range list {
			ask.Hosts = append(ask.Hosts, job.Run{
				Prefix: e.Prefix, Suffix: e.Suffix, Width: uint8(e.Width), Lo: e.Lo, Count: e.Count, User: e.User,
				HCA: e.HCA, Slots: e.Slots,
			})
		}
	}
	if !c.stay() {
		return
	}
	defer c.attached.Done()
	wait := make(chan core.ResizeTold, 2)
	c.mu.Lock()
	c.changes[ask.ID] = wait
	c.mu.Unlock()
	c.loop.post(ask)
	for {
		select {
		case e := <-wait:
			if e.Refused != "" {
				refuse(e.Refused)
				return
			}
			size := &control.Size{Nodes: e.Nodes, Ranks: e.Ranks, Waits: !e.Over}
			if put(control.Response{Size: size, Done: e.Over}) != nil || e.Over {
				return
			}
		case <-gone:
			return
		case <-c.loop.over:
			return
		}
	}
}
