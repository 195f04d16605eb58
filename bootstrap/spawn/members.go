package spawn

import (
	"slices"
	"strconv"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Members of a session are daemons that communicate with the agent over their descriptor ControlFD, as ranks do
// (docs/dev/decisions/0035-tools.md). The environment variable for the descriptor has another name than for ranks, so
// that a program does not confuse the two.

// addMembers adds the members of a session on this node. Each runs beside all ranks in the order, or beside one rank,
// which may have ended.
func (d *Daemons) addMembers() {
	o := &d.order
	for k := range o.Count {
		if !o.PerRank {
			d.add(uint32(o.First)+k, o.Ranks[0], o.Ranks...)
			continue
		}
		slot := d.set.cfg.Node.First + job.Slot(k)
		if slices.Contains(o.Ranks, slot) {
			d.add(uint32(o.First)+k, slot, slot)
		} else {
			d.add(uint32(o.First)+k, slot)
		}
	}
}

// addMember makes a daemon a member of the session. The number of the member is that of the daemon. The member
// receives a description of the ranks in slots, and its control channel reports to events.
func (d *Daemons) addMember(one *daemon, slots []job.Slot, events Events) {
	one.env = append(one.env, "IBRUN_DAEMON="+num(one.number), "IBRUN_MEMBER="+num(one.number),
		"IBRUN_MEMBERS="+num(d.order.Size), "IBRUN_MEMBER_FD="+strconv.Itoa(ControlFD))
	one.env = append(one.env, d.order.Env...)
	one.beside = slots
	one.member = newControl(job.Slot(one.number), events)
	one.member.noun = "member"
}

// greet sends a running member its description and the frames in one.early, and starts to read from it. It does
// nothing if the daemon is no member. The caller must hold d.mu.
func (d *Daemons) greet(one *daemon) {
	if one.member == nil {
		return
	}
	var ranks []rankwire.LocalRank
	for _, slot := range one.beside {
		if p := d.set.Process(slot); p.PID != 0 {
			r := d.set.rank(slot)
			ranks = append(ranks, rankwire.LocalRank{Rank: uint32(r.rank), Local: r.local, PID: uint32(p.PID)})
		}
	}
	one.member.send(rankwire.Member{Number: one.number, Size: d.order.Size, Host: d.set.cfg.Node.Host,
		Credit: rankwire.ToolCredit, Ranks: rankwire.NewLocalRanks(ranks...)})
	for _, m := range one.early {
		one.member.send(m)
	}
	one.greeted, one.early = true, nil
	one.member.serve(one.member.readFrames)
}

// leave closes the control channel of a daemon that has ended or was not started. It does nothing if the daemon is no
// member of a session.
func (one *daemon) leave() {
	if one.member != nil {
		one.member.drain()
		one.member.close()
	}
}

// Tell sends a frame to a member. If the member has not been sent its description yet, the frame is sent later.
func (d *Daemons) Tell(member uint32, m frame.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.all {
		switch {
		case one.number != member || one.member == nil:
		case one.greeted:
			one.member.send(m)
		default:
			one.early = append(one.early, m)
		}
	}
}
