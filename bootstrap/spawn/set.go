// Package spawn starts the ranks of one node. It forwards their output, standard input and signals, and reports an
// event when the state of a rank changes. It finds the file that a command names, as a shell does, and reads the state
// of running ranks from /proc and from a debugger. The agent decides which ranks are started, restarted or killed.
package spawn

import (
	"os"
	"sync"
	"syscall"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/reaper"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
	"ibrun/internal/proc"
	"ibrun/topo"
)

// Config describes the ranks of one node.
type Config struct {
	Job       *job.Job
	Node      job.Node
	NodeIndex job.NodeIndex
	// Interfaces are the network interfaces that ranks may use. The first one carries their data.
	Interfaces []string
	// Namespace is the name of the job for clients of PMIx.
	Namespace string
	Start     uint8 // how often all ranks were restarted
	Events    Events
}

// Set represents the ranks of one node.
type Set struct {
	// Ports of the loopback interface at which ranks connect to the agent.
	PMI   pmiPort
	PMIx  pmixPort
	Charm port // for programs of Charm++; the agent acts as their charmrun

	cfg    Config
	ranks  []*rank
	limits []proc.RLimit // limits of ranks that are marked in harmful and differ from the limits of this process

	machine *topo.Machine // hardware of this node; set by place
	alone   bool          // the machine was read without its network interfaces, because none has to be chosen
	recipes map[*job.Program]*recipe
	null    *os.File // standard input of ranks without input; open until the agent ends; only Start uses it

	mpi    library // of prepareMPI
	memory memory
	group  *reaper.Group // control group of the ranks and the processes that they fork; nil if there is none

	stall stall
	again sync.Mutex // held while a rank starts again

	mu sync.Mutex // guards mpi
}

type rank struct {
	slot    job.Slot
	rank    job.Rank
	local   uint32
	start   uint8 // how often the rank was restarted
	program *job.Program
	place   place
	path    string // path of the program, once it has been found; only Start uses it until the rank runs
	charm   bool   // the rank was started as a Charm++ program; only Start uses it until the rank runs
	// terminal means that the standard streams of the rank are a terminal.
	terminal bool
	control  *control
	streams

	mu       sync.Mutex
	process  *proc.Process
	signaled bool // a signal that ends a program was sent to the rank while it ran
}

// New returns a Set with the ranks of the node. Start starts them.
func New(cfg Config) *Set {
	s := &Set{cfg: cfg, recipes: map[*job.Program]*recipe{}, group: reaper.MakeGroup(cfg.Job.ID, uint32(cfg.NodeIndex))}
	for i := range cfg.Node.Ranks {
		s.ranks = append(s.ranks, newRank(cfg, i))
	}
	return s
}

// newRank returns the rank with the number local on the node.
func newRank(cfg Config, local uint32) *rank {
	slot := cfg.Node.First + job.Slot(local)
	r := &rank{slot: slot, rank: cfg.Job.Layout.Rank(slot), local: local, start: cfg.Start, control: newControl(slot, cfg.Events)}
	for k := range cfg.Job.Programs {
		if p := &cfg.Job.Programs[k]; p.Has(r.rank) {
			r.program = p
		}
	}
	if in := cfg.Job.Stdin; cfg.Job.Output.StdinFile == "" && (in.Mode == job.StdinAll || in.Mode == job.StdinOne && in.Rank == r.slot) {
		r.feed = newFeeder(r.slot, cfg.Events)
		r.terminal = cfg.Job.Output.Terminal
		r.feed.terminal = r.terminal
	}
	for stream := 1; stream <= 2; stream++ {
		r.readers[stream] = newReader(r.slot, uint8(stream), r.feed, cfg)
	}
	r.readers[1].unbuffered = r.terminal || cfg.Job.Output.Unbuffered
	return r
}

// Start starts every rank, and reports ForkDone when each runs or has failed.
func (s *Set) Start() {
	s.cfg.Events.ForkDone(core.ForkDone{Failed: s.startInTime(s.ranks, s.startAll)})
	for _, r := range s.ranks {
		if p := r.running(); p != nil {
			go s.watch(r, p)
		}
	}
}

func (s *Set) startAll() (failed []core.ForkFailure) {
	s.prepare()
	refused := s.place()
	if s.cfg.Job.PMIPort && refused == nil {
		refused = s.PMI.open(s.cfg.Node, s.cfg.Events)
	}
	failed = s.startRanks(s.ranks, refused)
	s.memory.watch()
	if refused == nil && (s.cfg.Job.Binding.Report || s.cfg.Job.Binding.Topo) {
		s.cfg.Events.Placed(s.placed())
	}
	return failed
}

// watch serves the control channel of a rank that runs. It reports core.RankExited when the rank has ended, and
// core.RankDrained when its output has ended.
func (s *Set) watch(r *rank, p *proc.Process) {
	if r.feed != nil && r.start > 0 {
		r.feed.end() // an earlier start of the rank has read the input
	}
	r.control.serve(r.control.read)
	<-p.Done()
	r.mu.Lock()
	told := r.signaled
	r.mu.Unlock()
	r.feed.close()
	r.control.drain()
	r.control.close()
	s.PMI.end(r.slot)
	s.PMIx.end(r.slot)
	s.Charm.end(r.slot)
	s.cfg.Events.RankExited(core.RankExited{Rank: r.slot, Status: StatusOf(p.Status()), Signaled: told, Cause: s.why(r, p.Status())})
	r.drain()
	s.cfg.Events.RankDrained(core.RankDrained{Rank: r.slot})
}

// StatusOf converts the wait status of a process.
func StatusOf(w syscall.WaitStatus) job.Status {
	if w.Signaled() {
		return job.Status{Kind: job.Signaled, Code: uint8(w.Signal()), Core: w.CoreDump()}
	}
	return job.Status{Kind: job.Exited, Code: uint8(w.ExitStatus())}
}

func (s *Set) rank(slot job.Slot) *rank { return s.ranks[slot-s.cfg.Node.First] }

// Resume lets the reader of a stream report its next chunk.
func (s *Set) Resume(slot job.Slot, stream uint8) { s.rank(slot).readers[stream].resume() }

// Feed queues input for a rank, and sets the size of its terminal if in has one. core.RankInputRead is reported when
// the rank has read input.
func (s *Set) Feed(slot job.Slot, in wire.Stdin) { s.rank(slot).input(in) }

// Signal sends a signal to the process group of each live rank. If the signal ends jobs, Signal stops all ranks
// before it sends the signal. Otherwise a rank could notice the death of another one by its sockets, and report an
// error.
func (s *Set) Signal(number syscall.Signal) {
	if endsJobs(number) && number != syscall.SIGKILL {
		s.signalGroups(syscall.SIGSTOP)
		defer s.signalGroups(syscall.SIGCONT)
	}
	s.signalGroups(number)
}

func (s *Set) signalGroups(number syscall.Signal) {
	for _, r := range s.ranks {
		r.mu.Lock()
		p := r.process
		r.signaled = r.signaled || endsJobs(number) && p != nil && !p.Dying()
		r.mu.Unlock()
		if p != nil {
			p.SignalGroup(number)
		}
	}
}

// endsJobs reports whether a signal is used to end jobs.
func endsJobs(number syscall.Signal) bool {
	switch number {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGKILL:
		return true
	}
	return false
}

// KillAll prevents the start of further ranks, which then fail, and calls Sweep.
func (s *Set) KillAll(most time.Duration, keep []int) (left []int) {
	s.stall.forbid()
	return s.Sweep(most, keep)
}

// groupPatience limits how long a control group may stay in use after its processes have ended.
const groupPatience = 200 * time.Millisecond

// Sweep kills all descendants of this process, except the processes in keep and their descendants. It returns the
// processes that could not be killed in time. It also removes the shared memory files of the ranks.
func (s *Set) Sweep(most time.Duration, keep []int) (left []int) {
	empty := s.group.Remove(0) // as nearly always: nothing is to be killed
	if !empty {
		s.group.Kill()
	}
	left = proc.KillDescendants(most, keep...)
	if len(left) == 0 && !empty {
		s.group.Remove(groupPatience)
	}
	s.group.Tidy()
	s.tidy()
	return left
}
