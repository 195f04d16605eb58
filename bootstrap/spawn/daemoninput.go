package spawn

import (
	"os"
	"strconv"
	"syscall"
	"time"

	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
	"ibrun/internal/proc"
)

// A daemon that reads what its caller sends: by a pipe, or by a terminal as a debugger does
// (docs/dev/decisions/0026-gdb-pipe-overview.md).

// debugs reports whether the daemon is a debugger.
func (d *Daemons) debugs() bool { return d.order.Input >= wire.DebugsByTerminal }

func (d *Daemons) hasTerminal() bool { return d.order.Input == wire.DebugsByTerminal }

// connect opens the descriptors of a daemon.
func (d *Daemons) connect(one *daemon) (e ends, err error) {
	e.child = make([]*os.File, 3)
	switch d.order.Input {
	case wire.DebugsByTerminal:
		return e, connectTerminal(&e, d.order.Window)
	case wire.ReadsPipe, wire.DebugsByPipe:
		e.child[0], e.feed, err = proc.PipeTo()
	default:
		e.child[0], err = os.Open(os.DevNull)
	}
	for stream := 1; stream <= 2 && err == nil; stream++ {
		e.read[stream], e.child[stream], err = proc.PipeFrom()
	}
	return e, err
}

// argv is a daemon's arguments. A debugger is given the process of its rank.
func (d *Daemons) argv(one *daemon) []string {
	argv := d.order.Argv
	if d.debugs() {
		pid := d.attached()
		words := proc.Stat(pid)
		one.stood = len(words) > 0 && words[0] == "T"
		argv = append(argv[:len(argv):len(argv)], "-p", strconv.Itoa(pid))
	}
	return argv
}

// attached returns the PID of the process that the debugger attaches to. This is the process of the rank, or, if that
// is a shell that waits for a child, the child.
func (d *Daemons) attached() int {
	pid := d.set.Process(d.order.Ranks[0]).PID
	if look, lives := (&Looks{}).At(pid); lives {
		pid = look.worker
	}
	return pid
}

// letGo lets a rank go on that a debugger has left stopped: one does that is killed while it
// attaches.
func (d *Daemons) letGo(one *daemon, s job.Status) {
	if d.debugs() && s.Kind == job.Signaled && !one.stood {
		d.set.SignalRank(one.rank.slot, syscall.SIGCONT)
	}
}

// hangUpMost is how long a debugger may take to leave its rank when its terminal is gone.
const hangUpMost = 3 * time.Second

// hangUp ends a debugger so that it takes its breakpoints out of the rank: SIGKILL would leave them
// there, and the rank would die of the next one.
func (d *Daemons) hangUp() {
	until := time.After(hangUpMost)
	for _, one := range d.all {
		d.mu.Lock()
		p := one.process
		d.mu.Unlock()
		if p == nil {
			continue
		}
		p.SignalGroup(syscall.SIGHUP)
		p.SignalGroup(syscall.SIGCONT)
		select {
		case <-p.Done():
		case <-until:
			p.SignalGroup(syscall.SIGKILL)
		}
	}
}

// Feed passes input, or a new size of the terminal, to the only daemon of the order.
func (d *Daemons) Feed(in wire.Stdin) { d.all[0].input(in) }
