package spawn

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/exit"
	"ibrun/internal/job"
	"ibrun/internal/proc"
)

// Daemons represents the daemons that one order starts on this node: a single one, one beside each rank, or members of
// a session (docs/dev/decisions/0028-daemons.md).
type Daemons struct {
	set   *Set
	order flow.StartDaemons
	all   []*daemon // unchanged after StartDaemons
	mark  proc.Mark // variables in the environment of the daemons, by which kill finds their processes

	mu     sync.Mutex
	killed bool // Kill was called
}

// daemon is one daemon of an order. It exists before its process is started.
type daemon struct {
	number uint32
	rank   *rank // rank whose directory and environment the daemon gets
	env    []string
	member *control   // connection to a member of a session; nil for other daemons
	beside []job.Slot // ranks that are described to a member; nil for other daemons

	stood bool // the process to which this debugger attaches was stopped before

	process *proc.Process   // nil until the daemon is started; guarded by Daemons.mu
	greeted bool            // the member has been sent its description (see greet); guarded by Daemons.mu
	early   []frame.Message // frames to send to the member after its description; guarded by Daemons.mu
	streams
}

// StartDaemons starts the n daemons of an order in new goroutines. For each daemon, the Set reports flow.DaemonExited
// when the daemon has ended or could not be started. All ranks must have been started before. Call StartDaemons from
// the goroutine that calls the other methods of the Set.
func (s *Set) StartDaemons(o flow.StartDaemons) (d *Daemons, n int) {
	d = &Daemons{set: s, order: o, mark: s.mark("IBRUN_EXEC="+num(o.ID), "IBRUN_NODE="+num(s.cfg.NodeIndex))}
	switch {
	case o.Count > 0:
		d.addMembers()
	case o.PerRank:
		for _, slot := range o.Ranks {
			d.add(uint32(slot), slot, slot)
		}
	default:
		d.add(o.Number, o.Ranks[0], o.Ranks...)
	}
	for _, one := range d.all {
		go d.run(one)
	}
	return d, len(d.all)
}

// add appends a daemon with the given number to d.all. The daemon gets the directory and the environment of the program
// of the rank at, and variables that describe those of the ranks in slots that run.
func (d *Daemons) add(number uint32, at job.Slot, slots ...job.Slot) {
	s := d.set
	one := &daemon{number: number, rank: s.rank(at)}
	events := daemonEvents{s.cfg.Events, d.order.ID, number}
	if d.order.Input != wire.ReadsNothing {
		one.feed = newFeeder(at, events)
		one.feed.terminal = d.hasTerminal()
	}
	for stream := range uint8(2) {
		r := newReader(at, stream+1, one.feed, Config{Job: s.cfg.Job, Events: events})
		r.unbuffered = r.unbuffered || one.feed != nil // a person or a program waits for the answers to the input
		one.readers[stream+1] = r
	}
	var ranks, pids []string
	for _, slot := range slots {
		if p := s.Process(slot); p.PID != 0 {
			ranks, pids = append(ranks, num(s.rank(slot).rank)), append(pids, strconv.Itoa(p.PID))
		}
	}
	one.env = append(one.env, d.mark.Variables...)
	one.env = append(one.env, "IBRUN_HOST="+s.cfg.Node.Host, "IBRUN_NODES="+num(s.cfg.Job.Nodes),
		"IBRUN_SIZE="+num(s.cfg.Job.Size), "IBRUN_LOCAL_SIZE="+num(s.cfg.Node.Ranks),
		"IBRUN_RANKS="+strings.Join(ranks, ","), "IBRUN_PIDS="+strings.Join(pids, ","), "PWD="+one.rank.program.Dir)
	if d.order.PerRank {
		one.env = append(one.env, "IBRUN_RANK="+num(one.rank.rank), "IBRUN_LOCAL_RANK="+num(one.rank.local))
	}
	switch {
	case d.order.Count > 0:
		d.addMember(one, slots, events)
	case d.order.PerRank:
		one.env = append(one.env, "IBRUN_DAEMON="+num(one.rank.rank))
	default:
		one.env = append(one.env, "IBRUN_DAEMON="+num(d.order.Place))
	}
	d.all = append(d.all, one)
}

// daemonEvents turns events of ranks into events of one daemon. Readers, feeders and control channels report events of
// ranks, even if they serve a daemon.
type daemonEvents struct {
	Events
	id, number uint32
}

func (e daemonEvents) RankOutput(ev core.RankOutput) {
	out := wire.DaemonOutput{ID: e.id, Number: e.number, Stream: ev.Stream, Data: ev.Data}
	e.DaemonOutput(flow.DaemonOutput{DaemonOutput: out})
}

func (e daemonEvents) RankInputRead(ev core.RankInputRead) {
	e.DaemonInputRead(flow.DaemonInputRead{ID: e.id, N: uint32(ev.N)})
}

func (e daemonEvents) RankInputClosed(core.RankInputClosed) {
	e.DaemonInputClosed(flow.DaemonInputClosed{ID: e.id})
}

func (e daemonEvents) RankFrame(ev core.RankFrame) {
	e.MemberFrame(flow.MemberFrame{ID: e.id, Member: job.Slot(e.number), Msg: ev.Msg})
}

// run starts a daemon, waits for its end, and reports the end.
func (d *Daemons) run(one *daemon) {
	p, code, err := d.start(one)
	if err != nil {
		one.feed.close()
		one.leave()
		d.ended(one, job.Status{Kind: job.NotRun, Code: code}, advised(err))
		return
	}
	<-p.Done()
	one.feed.close()
	d.letGo(one, StatusOf(p.Status()))
	one.drain()
	one.leave()
	d.ended(one, StatusOf(p.Status()), "")
}

// ended reports the end of a daemon. If the daemon was not started, cause is the reason; otherwise cause is empty.
func (d *Daemons) ended(one *daemon, status job.Status, cause string) {
	d.set.cfg.Events.DaemonExited(flow.DaemonExited{ID: d.order.ID, Number: one.number, Status: status, Cause: cause})
}

// start starts the process of a daemon. If this fails, code is the exit code to report for the daemon.
func (d *Daemons) start(one *daemon) (p *proc.Process, code uint8, err error) {
	runs := one.rank.program
	env := shared(os.Environ(), runs)
	for _, entry := range one.env {
		env.set(entry)
	}
	path, err := FindProgram(d.order.Argv[0], runs.Dir, env.list)
	if err != nil {
		return nil, uint8(exit.Code(err)), err
	}
	ends, err := d.connect(one)
	defer ends.close()
	if err != nil {
		return nil, 126, err
	}
	files := ends.child
	if one.member != nil {
		theirs, err := one.member.open()
		if err != nil {
			return nil, 126, err
		}
		defer theirs.Close()
		files = append(files, theirs)
	}
	c := proc.Cmd{Path: path, Argv: d.argv(one), Env: env.list, Dir: runs.Dir, Files: files, Setpgid: true,
		Terminal: d.hasTerminal(), Most: d.set.cfg.Job.Launch.Timeout, Group: d.set.group.Dir()}
	if d.order.PerRank {
		c.Thread = one.rank.place.thread
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.killed {
		return nil, 0, errors.New("its caller or the job ended first")
	}
	proc.Row(func(begin proc.Beginner) { p, code, err = execute(c, begin(c), begin) })
	if err != nil {
		return nil, code, err
	}
	one.process = p
	one.streams.start(&ends)
	d.greet(one)
	return p, 0, nil
}

// Resume lets the reader of a stream of the daemon with the given number report its next chunk. The stream is 1 for
// standard output and 2 for standard error.
func (d *Daemons) Resume(number uint32, stream uint8) {
	for _, one := range d.all {
		if one.number == number {
			one.readers[stream].resume()
		}
	}
}

// killMost limits how long kill searches for processes that daemons have started.
const killMost = 2 * time.Second

// Kill kills the daemons and all processes that have inherited their mark, without waiting for their end. Daemons that
// do not run yet are not started any more. A debugger is asked to end first, so that it removes its breakpoints from
// the rank.
func (d *Daemons) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.killed {
		return
	}
	d.killed = true
	if d.debugs() {
		go func() { d.hangUp(); d.kill() }()
		return
	}
	d.signal(syscall.SIGKILL)
	go d.kill()
}

// kill kills all processes that have the mark of the daemons in their environment.
func (d *Daemons) kill() { _, _, _ = proc.KillMarked(d.mark, 0, killMost) }

// signal sends a signal to the process groups of the daemons that run. The caller must hold d.mu.
func (d *Daemons) signal(number syscall.Signal) {
	for _, one := range d.all {
		if one.process != nil && !one.process.Ended() {
			one.process.SignalGroup(number)
		}
	}
}
