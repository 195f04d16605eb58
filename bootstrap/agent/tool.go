package agent

import (
	"cmp"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"ibrun/bootstrap/control"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/spawn"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// tool holds the state of the debugger and of the tool that has launched the job (docs/dev/decisions/0035-tools.md).
type tool struct {
	debugger *Debugger     // nil if debuggers cannot find the ranks in this process
	giving   sync.Mutex    // held during a call of debugger.Give
	ready    chan struct{} // closed when all ranks run

	// Under the controlSide's lock.
	released bool
	gone     bool // the tool that has launched the job has disconnected
	ends     bool // that tool wants the job to end if its ranks have not been released by then
}

// toolReady tells tools that all ranks run.
func (c *controlSide) toolReady() {
	close(c.tool.ready)
	if c.tool.debugger != nil {
		go c.awaitDebuggers(c.tool.debugger)
	}
	c.checkTool()
}

// serveTool performs the requests of the tool that has launched the job, until the tool disconnects.
func (c *controlSide) serveTool(conn *net.UnixConn, ends bool) {
	control.ServeOne(conn, c.answer)
	c.mu.Lock()
	c.tool.gone, c.tool.ends = true, ends
	c.mu.Unlock()
	c.checkTool()
}

// checkTool releases the waiting ranks, or ends the job, if the tool that has launched the job has disconnected and
// all its sessions have ended.
func (c *controlSide) checkTool() {
	c.mu.Lock()
	due := c.tool.gone && !c.tool.released && len(c.execs) == 0 && c.state.Load() == 1
	ends := c.tool.ends
	c.mu.Unlock()
	switch {
	case due && ends:
		go c.events.Interrupted(core.Interrupted{Signal: uint8(syscall.SIGTERM)})
	case due:
		go c.release()
	}
}

// release lets the ranks continue that wait for a tool before they run their programs.
func (c *controlSide) release() {
	c.mu.Lock()
	was := c.tool.released
	c.tool.released = true
	c.mu.Unlock()
	if c.job.Load().Launch.Hold && !was {
		c.ask(rankwire.Question{What: rankwire.SendSignal, Signal: uint8(syscall.SIGCONT),
			PatienceMs: lookPatienceMs}, nil)
	}
}

// answerTool answers the requests of libibruntool.
func (c *controlSide) answerTool(r caller) {
	why := ""
	switch r.Verb {
	case "ready":
		select {
		case <-c.tool.ready:
		case <-c.over:
			return
		case <-r.gone:
			return
		}
	case "session":
		if len(r.Command) == 0 || r.Command[0] == "" {
			why = "session needs a command"
			break
		}
		c.begin(r)
		return
	case "release":
		if c.state.Load() == 0 {
			why = launching
			break
		}
		if !c.stay() {
			return
		}
		defer c.attached.Done() // the job may end at once
		c.release()
	case "processes":
		c.putProcesses(r)
		return
	default:
		c.mu.Lock()
		x := c.execs[r.Session]
		if x != nil && r.Verb == "keep" {
			x.kept = true
		}
		c.mu.Unlock()
		switch {
		case x == nil:
			why = noSession
		case r.Verb == "send":
			why = c.send(x, r)
		default:
			c.events.DaemonsKept(flow.DaemonsKept{ID: r.Session})
		}
	}
	r.done(why)
}

// putProcesses sends the table of processes, at most rankwire.MaxRows of them in a response.
func (c *controlSide) putProcesses(r caller) {
	for some := range slices.Chunk(c.processes(r.gone), rankwire.MaxRows) {
		if r.put(control.Response{ToolResponse: control.ToolResponse{Processes: some}}) != nil {
			return
		}
	}
	r.done("")
}

// processes asks the job for the processes of all ranks that run, in their order.
func (c *controlSide) processes(gone <-chan struct{}) (all []control.Process) {
	j := c.job.Load()
	paths := pathsOf(j)
	for first := uint32(0); first < j.Layout.Ranks(); first += rankwire.MaxRows {
		count := min(rankwire.MaxRows, j.Layout.Ranks()-first)
		spans := rankwire.NewSlotSpans(rankwire.SlotSpan{First: job.Slot(first), Count: count})
		s, ok := c.ask(rankwire.Question{What: rankwire.LookAtRanks, PatienceMs: lookPatienceMs, Rows: count,
			Ranks: spans}, gone)
		if !ok {
			return all
		}
		for row := range s.Rows.All() {
			if row.PID == 0 {
				continue
			}
			rank := j.Layout.Rank(row.Rank)
			base, _ := j.Layout.SlotsOn(j.Layout.NodeOf(row.Rank))
			p := control.Process{Rank: uint32(rank), Local: uint32(row.Rank - base), PID: row.PID, Host: row.Host}
			for i := range j.Programs {
				if j.Programs[i].Has(rank) {
					p.Program = paths[i]
				}
			}
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b control.Process) int { return cmp.Compare(a.Rank, b.Rank) })
	return all
}

// pathsOf returns the path of each program of a job on this node. For a program that does not exist on this node, it
// makes a path from the program's name.
func pathsOf(j *job.Job) (paths []string) {
	for _, p := range j.Programs {
		path, err := spawn.FindProgram(p.Argv[0], p.Dir, os.Environ())
		if err != nil {
			path = p.Argv[0]
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.Dir, path)
		}
		paths = append(paths, path)
	}
	return paths
}
