package agent

import (
	"ibrun/bootstrap/control"
	"ibrun/bootstrap/core"
	"ibrun/internal/hostlist"
	"ibrun/internal/job"
)

// resized records the new layout of the job after a change of its size.
func (r *rootSide) resized(e core.JobResized) {
	r.cfg.Job = e.Job
	r.ccs.resized(e.Job.Layout)
	if r.control != nil {
		r.control.job.Store(e.Job)
	}
}

// resize requests a change of the job's size, and reports the progress of the change to the caller. If the caller
// disconnects, the change continues.
func (c *controlSide) resize(r caller) {
	ask := core.ResizeAsked{ID: c.tickets.Add(1), Shrink: r.Nodes}
	if r.Verb == "grow" {
		list, err := hostlist.Inline(r.Hosts)
		if err != nil || len(list) == 0 {
			r.done("grow needs hosts")
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
	replies, forget := c.changes.await(ask.ID)
	defer forget()
	c.events.ResizeAsked(ask)
	for {
		select {
		case e := <-replies:
			if e.Refused != "" {
				r.done(e.Refused)
				return
			}
			size := &control.Size{Nodes: e.Nodes, Ranks: e.Ranks, Waits: !e.Over}
			if r.put(control.Response{Size: size, Done: e.Over}) != nil || e.Over {
				return
			}
		case <-r.gone:
			return
		case <-c.over:
			return
		}
	}
}
