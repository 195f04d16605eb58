// Package plan makes a finished job of what the user asked for, the surroundings of ibrun and the
// hosts: which nodes, which ranks on each, which tree. It starts nothing, and reaches the machine
// through the functions of Surroundings only.
package plan

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/internal/exit"
	"ibrun/internal/job"
	"ibrun/internal/limits"
	"ibrun/internal/plain"
	"ibrun/topo"
)

// maxWords bounds arguments and environment together, in bytes: they travel in
// one frame, and the rest of it is hosts.
const maxWords = frame.MaxSize / 2

// Plan is a request made whole: everything that is needed to run it, and
// nothing started.
type Plan struct {
	Job       *job.Job   // finished by complete; nothing changes it later
	Nodes     job.Nodes  // with their ranks
	Alloc     job.Nodes  // that nodes were chosen from
	Here      int        // the node that is this machine and needs no session; -1: none
	Shape     tree.Shape // of the launch tree
	Source    string     // of the costs in Shape, in words
	Policy    core.Policy
	Name      string   // --job-name
	Warnings  []string // for the user
	Origin    string   // the allocation that ibrun runs in, for -v; empty: none
	Limited   bool     // Policy.Timeout comes from the end of the allocation
	Preflight bool     // program.Preflight is to look for the programs

	plane  uint32     // nodes take turns in numbering, so many ranks at a time; 0: they do not
	layout job.Layout // of Nodes, before the job has it
	slots  []string   // of a rank file, by rank
	local  []string   // variables that a resource manager has set for this node alone
}

// Surroundings describes the process that makes a plan, and its machine.
type Surroundings struct {
	Host    string // in lower case
	User    string
	Cwd     string   // absolute
	Env     []string // NAME=VALUE
	Umask   uint32
	Limits  [limits.Count]limits.Limit
	Window  job.Window // of the user's terminal
	Now     time.Time
	Costs   func() tree.CostCache // loads costs measured in earlier launches; called only if needed
	Weights map[string]uint32     // weight of each host for --map-by load, by host name

	Read    readFile                                      // reads a file that the user has named
	Ask     func(argv ...string) ([]byte, error)          // what a command of a resource manager prints
	Has     func(command string) bool                     // whether a command can be run here
	Machine func(topoInput string) (*topo.Machine, error) // reads a capture, or this machine for ""
}

// readFile is the content of a file.
type readFile func(name string) ([]byte, error)

// Identity tells one start of a job from all others.
type Identity struct {
	ID     string   // 16 lower-case hexadecimal digits
	Secret [32]byte // the key of the job
}

// New makes the plan of a request in some surroundings. An error is an exit.Error with the code
// exit.Usage.
func New(r *cli.Request, at Surroundings, id Identity) (*Plan, error) {
	p := &Plan{Name: r.JobName, Preflight: r.Preflight,
		Warnings: slices.Concat(strangeKnobs(at.Env), r.Warnings, missing(&r.Env, at.Env))}
	from, err := allocate(r, at)
	if err != nil {
		return nil, err
	}
	if err := p.placeOn(r, from, at); err != nil {
		return nil, err
	}
	if from.given != nil {
		p.local = from.given.Local
	}
	how, why, err := starting(r, from.given, at)
	if err == nil {
		how, err = sharing(r.SharedSteps, how)
	}
	if err != nil {
		return nil, err
	}
	p.explain(from, r, at, why)
	draft, err := p.draft(r, how, at)
	if err != nil {
		return nil, err
	}
	if from.given != nil {
		draft.Own = from.given.Own
	}
	p.Policy.KillOnBad, p.Policy.Timeout, p.Policy.Wait = r.KillOnBad, r.Timeout, r.Wait
	p.Policy.MaxRestarts, p.Policy.RestartsWithin = r.MaxRestarts, r.RestartsWithin
	p.Policy.RepairAsked = r.RepairAsked
	if v, ok := job.LookupVariable(at.Env, "MPIEXEC_TIMEOUT"); ok && r.Timeout == 0 {
		if err := cli.SetDuration(&p.Policy.Timeout, v); err != nil {
			return nil, exit.Usagef("MPIEXEC_TIMEOUT: %v", err)
		}
	}
	p.within(from.given, how.Grace, at)
	p.Shape, _ = tree.Parse(r.Tree) // the request has
	p.measured(r.Tree, how, at.Costs)
	return p, p.complete(draft, at, id)
}

// placeOn gives ranks to the nodes of an allocation, without those that are left out or held back.
func (p *Plan) placeOn(r *cli.Request, from allocation, at Surroundings) error {
	switch {
	case from.local && r.NoLocal:
		return exit.Usagef("--nolocal leaves no host: name others with --hosts")
	case !from.local:
		if err := p.leaveOut(r, &from, at); err != nil {
			return err
		}
	}
	if err := p.holdBack(r, &from, at); err != nil {
		return err
	}
	if err := p.place(r, from, at); err != nil {
		return err
	}
	if err := p.roomy(r, from.local, at); err != nil {
		return err
	}
	if err := p.fewer(r); err != nil {
		return err
	}
	p.Alloc, p.Here = from.all, -1
	if from.local {
		p.Here = 0
	} else if r.Launch.Launcher != "local" {
		p.Here = thisMachine(p.Nodes, at)
	}
	return nil
}

// draft is what of the job the request and the surroundings say. It is called when ranks have their
// places; complete adds the rest.
func (p *Plan) draft(r *cli.Request, how job.LaunchOptions, at Surroundings) (job.Job, error) {
	programs, err := p.programs(r, at)
	if err != nil {
		return job.Job{}, err
	}
	if err := p.files(r); err != nil {
		return job.Job{}, err
	}
	stdin, err := reader(r, p.layout)
	if err != nil {
		return job.Job{}, err
	}
	draft := job.Job{
		Programs: programs, Umask: at.Umask, Output: p.output(r, at.Cwd), Stdin: stdin, Launch: how,
		Transport: transport(r, uint32(p.Nodes.Len()), p.Nodes.Ranks()),
		Binding:   r.Binding, MPI: r.MPI, PMIPort: r.PMIPort,
	}
	for n, l := range at.Limits {
		draft.Limits = append(draft.Limits, job.Limit{Resource: uint8(n), Soft: l.Soft, Hard: l.Hard})
	}
	draft.Launch.Timed = r.Timing || r.Trace != "" || r.Report != ""
	if name := how.TraceEvents; name != "" {
		draft.Launch.TraceEvents = absolute(name, at.Cwd)
	}
	draft.Launch.StartBarrier, draft.Launch.KeepGoing = r.Spares > 0 || r.MinNodes > 0, !r.KillOnBad
	draft.Binding.Slots = p.slots
	if r.Numbering.Span {
		draft.Binding.Rank = draft.Binding.Map
	}
	return draft, nil
}

// complete makes the plan's job of a draft, and refuses one that cannot be sent. It adds what the
// nodes, the tree and this start decide, for the user's jobs and for spawned ones alike; nothing
// changes the job after it.
func (p *Plan) complete(draft job.Job, at Surroundings, id Identity) error {
	p.Shape.Cost.Window = tree.MostWindow
	if n := draft.Launch.Batch; n > 0 {
		p.Shape.Cost.Window = int(n)
	}
	p.Shape = p.Shape.Resolve(p.Nodes.Len() + 1)
	draft.ID, draft.Secret = id.ID, id.Secret
	draft.Size, draft.Nodes, draft.Layout = p.Nodes.Ranks(), uint32(p.Nodes.Len()), p.layout
	draft.FirstHost = p.Nodes.At(0).Host
	if slices.Contains(ownNames(at)[2:], draft.FirstHost) && p.Nodes.Len() > 1 {
		draft.FirstHost = at.Host // "localhost" would be another machine elsewhere
	}
	if draft.Size <= job.MaxDescribed && (draft.MPI == job.MPIAuto || draft.MPI == job.MPIPMIx) {
		draft.Hosts = p.Nodes.HostList()
	}
	draft.Launch.Tree, draft.Launch.LateBinding = p.Shape.String(), p.Shape.Kind == tree.Greedy
	if draft.Output.Terminal {
		draft.Output.Window = at.Window
	}
	p.Job = &draft
	return p.fits(spareFrame)
}

// spareFrame is what of a frame is kept for a tree that is bound late and for
// spares: stretches of nodes that are cut up as agents come and go, in bytes.
const spareFrame = 4 << 20

// fits refuses a job whose description does not fit into a frame less the spare bytes.
func (p *Plan) fits(spare int) error {
	err := wire.Vocabulary.Check(wire.Launch{Job: p.Job, Nodes: p.Nodes, Level: 1}, spare)
	switch {
	case errors.Is(err, frame.ErrSize):
		return exit.Usagef("%s: their names take more than the %d MiB that can be sent at once; write those that "+
			"differ in a number as a range, as in n[0001-0999]",
			plain.Plural(p.Nodes.Len(), "host"), (frame.MaxSize-spare)>>20)
	case err != nil:
		return exit.Usagef("this job cannot be sent to its hosts: %v; are there very many arguments, variables or "+
			"hosts with different numbers of ranks?", err)
	}
	return nil
}

// reader says who reads standard input; rank 0 if nobody said so.
func reader(r *cli.Request, l job.Layout) (job.Stdin, error) {
	switch {
	case r.Stdin == "none" || r.Output.StdinFile != "":
		return job.Stdin{}, nil
	case r.Stdin == "all":
		return job.Stdin{Mode: job.StdinAll}, nil
	case r.Stdin == "":
		return job.Stdin{Mode: job.StdinOne}, nil
	}
	n, _ := strconv.ParseUint(r.Stdin, 10, 32) // checked when it was parsed
	if size := l.Ranks(); n >= uint64(size) {
		return job.Stdin{}, exit.Usagef("--stdin %s: the job has ranks 0 to %d", r.Stdin, size-1)
	}
	return job.Stdin{Mode: job.StdinOne, Rank: l.Slot(job.Rank(n))}, nil
}

// programs checks the programs, and divides the ranks among them.
func (p *Plan) programs(r *cli.Request, at Surroundings) (programs []job.Program, err error) {
	first, size := job.Rank(0), 0
	for i, s := range r.Segments {
		some := []job.Program{{First: first, Count: uint32(s.Ranks), App: uint32(i), Argv: s.Argv}}
		if len(r.Segments) == 1 {
			some[0].Count = p.Nodes.Ranks()
		}
		first += job.Rank(some[0].Count)
		if s.Multi {
			if some, err = multiProg(s.Argv, p.Nodes.Ranks(), at.Read); err != nil {
				return nil, err
			}
		}
		env, drop := forwarded(&r.Env, at.Env, s.Sets, p.local)
		size += room(env)
		for _, prog := range some {
			prog.Env, prog.Drop, prog.Dir = env, drop, absolute(s.Dir, at.Cwd)
			if slices.ContainsFunc(slices.Concat(prog.Argv, prog.Env),
				func(w string) bool { return strings.IndexByte(w, 0) >= 0 }) {
				return nil, exit.Usagef("an argument or variable contains a NUL byte")
			}
			size += room(prog.Argv)
			programs = append(programs, prog)
		}
	}
	if size > maxWords {
		return nil, exit.Usagef("arguments and environment of all programs are %d MiB: at most %d are possible",
			size>>20, maxWords>>20)
	}
	return programs, nil
}

// room is how much room words take in a frame.
func room(words []string) (n int) {
	for _, w := range words {
		n += len(w) + 4
	}
	return n
}

// absolute returns the absolute path of dir, which is relative to from. If dir is empty, it returns from.
func absolute(dir, from string) string {
	switch {
	case dir == "":
		return from
	case filepath.IsAbs(dir):
		return dir
	}
	return filepath.Join(from, dir)
}
