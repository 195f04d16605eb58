package core

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// maxLeft is the maximum number of processes that one Notice names.
const maxLeft = 8

// killRanks kills the ranks of this node. The driver may wait for their end during two thirds of the time between
// finish.killAt and finish.giveUpAt.
func (c *Core) killRanks() {
	c.do(KillRanks{((c.finish.giveUpAt - c.finish.killAt) * 2 / 3).Round(time.Millisecond)})
}

// outlived handles processes of this node that have survived SIGKILL. It reports them to the user. All ranks of this
// node that have not exited are recorded as lost, and this agent does not wait for them any longer.
func (c *Core) outlived(left []Unkillable) {
	if len(left) == 0 {
		return
	}
	c.reportToUser(rankwire.Notice{Host: c.cfg.Host, Text: nameLeft(left)})
	c.finish.sweep = swept // a sweep would find the same processes
	ended := map[job.Slot]bool{}
	for _, run := range c.ranks.ends {
		ended[run.First] = true
	}
	for rank := range c.below.Own.All() {
		if !ended[rank] {
			c.endRank(rank, job.Status{Kind: job.Lost})
			c.rankEnded(rank, true)
			c.closeInput(rank)
		}
	}
	c.below.Own.Undrained, c.ranks.fate = 0, abandoned
}

// nameLeft returns a sentence that names processes that have survived SIGKILL, with a command that shows more about
// them. It returns "" if left is empty.
func nameLeft(left []Unkillable) string {
	if len(left) == 0 {
		return ""
	}
	var names, pids []string
	for _, p := range left[:min(len(left), maxLeft)] {
		pids = append(pids, strconv.Itoa(p.PID))
		names = append(names, fmt.Sprintf("%d (%s, state %s)", p.PID, p.Name, p.State))
	}
	who := "process " + names[0] + " lives"
	if len(left) > 1 {
		who = "processes " + strings.Join(names, ", ")
		if more := len(left) - len(names); more > 0 {
			who += fmt.Sprintf(" and %d more", more)
		}
		who += " live"
	}
	return who + " on after SIGKILL (state D: in the kernel, until a disk or a file server answers); hint: ps -o pid,user,stat,wchan:30,args -p " + strings.Join(pids, ",")
}
