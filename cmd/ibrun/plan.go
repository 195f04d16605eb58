package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/timing"
	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/internal/environ"
	"ibrun/internal/exit"
	"ibrun/internal/limits"
	"ibrun/internal/plural"
	"ibrun/internal/program"
	"ibrun/job"
)

// maxWords bounds arguments and environment together, in bytes: they travel in
// one frame, and the rest of it is hosts.
const maxWords = wire.MaxFrame / 2

// plan is a request made whole: everything that is needed to run it, and
// nothing started.
type plan struct {
	job      *job.Job
	nodes    job.Nodes
	alloc    job.Nodes // that nodes were chosen from
	here     int
	plane    uint32 // nodes take turns in numbering, so many ranks at a time; 0: they do not
	layout   job.Layout
	slots    []string // of a rank file, by rank
	name     string   // --job-name
	shape    tree.Shape
	policy   core.Policy
	warnings []string
	source   string // of the costs in shape, in words
}

// surroundings is what a plan takes from the process it is made in.
type surroundings struct {
	host   string
	user   string
	cwd    string
	env    []string
	costs  timing.CostCache // costs of earlier launches
	umask  uint32
	limits [limits.Count]limits.Limit
}

// makePlan checks a request against this machine and its files.
func makePlan(r *request, at surroundings) (*plan, error) {
	p := &plan{warnings: slices.Concat(strangeKnobs(at.env), r.warnings, r.env.missing(at.env))}
	from, err := r.allocation(at)
	if err != nil {
		return nil, err
	}
	if !from.local {
		if err = p.leaveOut(r, &from, at); err != nil {
			return nil, err
		}
	}
	if err = p.holdBack(r, &from, at); err != nil {
		return nil, err
	}
	if err := p.place(r, from, at); err != nil {
		return nil, err
	}
	if err := p.roomy(r, from.local); err != nil {
		return nil, err
	}
	if err := p.fewer(r); err != nil {
		return nil, err
	}
	p.alloc = from.all
	p.here = -1
	if from.local {
		p.here = 0
	} else if r.launch.Launcher != "local" {
		p.here = thisMachine(p.nodes, at)
	}
	if err := p.programs(r, at); err != nil {
		return nil, err
	}
	if err := p.files(r); err != nil {
		return nil, err
	}
	p.name = r.jobName
	j := p.job
	p.layOut(at)
	j.Umask, j.Output, j.Launch = at.umask, p.output(r, at.cwd), r.launch
	for n, l := range at.limits {
		j.Limits = append(j.Limits, job.Limit{Resource: uint8(n), Soft: l.Soft, Hard: l.Hard})
	}
	j.Transport, j.Binding = r.transport(p.nodes.Len()), r.binding
	j.Binding.Slots = p.slots
	if r.number.span {
		j.Binding.Rank = j.Binding.Map
	}
	j.MPI, j.PMIPort = r.mpi, r.pmiPort
	if j.Stdin, err = r.reader(j.Layout); err != nil {
		return nil, err
	}
	j.Launch.Timed = r.wantsViews()
	p.shape, _ = tree.Parse(r.tree)
	p.measured(r, at.costs)
	p.grow()
	j.Launch.StartBarrier, j.Launch.KeepGoing = r.spares > 0 || r.minNodes > 0, !r.killOnBad
	p.policy.KillOnBad, p.policy.Timeout, p.policy.Wait = r.killOnBad, r.timeout, r.wait
	if v, ok := environ.Lookup(at.env, "MPIEXEC_TIMEOUT"); ok && r.timeout == 0 {
		if err := span(&p.policy.Timeout, v); err != nil {
			return nil, exit.Usagef("MPIEXEC_TIMEOUT: %v", err)
		}
	}
	return p, p.fits()
}

// spareFrame is what of a frame is kept for a tree that is bound late and for
// spares: stretches of nodes that are cut up as agents come and go, in bytes.
const spareFrame = 4 << 20

// fits refuses a job that its agents could not be told of.
func (p *plan) fits() error {
	err := wire.Check(wire.Launch{Job: p.job, Nodes: p.nodes, Level: 1}, spareFrame)
	switch {
	case errors.Is(err, wire.ErrSize):
		return exit.Usagef("%s: their names take more than the %d MiB that can be sent at once; write those that differ in a number as a range, as in n[0001-0999]", plural.Of(p.nodes.Len(), "host"), (wire.MaxFrame-spareFrame)>>20)
	case err != nil:
		return exit.Usagef("this job cannot be sent to its hosts: %v; are there very many arguments, variables or hosts with different numbers of ranks?", err)
	}
	return nil
}

// layOut tells the job of the nodes that it was placed on.
func (p *plan) layOut(at surroundings) {
	j := p.job
	j.Nodes, j.FirstHost, j.Layout = uint32(p.nodes.Len()), p.nodes.At(0).Host, p.layout
	if slices.Contains(ownNames(at)[2:], j.FirstHost) && p.nodes.Len() > 1 {
		j.FirstHost = at.host // "localhost" would be another machine elsewhere
	}
}

// grow fits the tree to the number of agents, and to how many sessions each has in flight.
func (p *plan) grow() {
	p.shape.Cost.Window = tree.Window
	if n := p.job.Launch.Batch; n > 0 {
		p.shape.Cost.Window = int(n)
	}
	p.shape = p.shape.Resolve(p.nodes.Len() + 1)
	p.job.Launch.Tree, p.job.Launch.Late = p.shape.String(), p.shape.Kind == tree.Greedy
}

// reader says who reads standard input; rank 0 if nobody said so.
func (r *request) reader(l job.Layout) (job.Stdin, error) {
	switch {
	case r.stdin == "none" || r.output.StdinFile != "":
		return job.Stdin{}, nil
	case r.stdin == "all":
		return job.Stdin{Mode: job.StdinAll}, nil
	case r.stdin == "":
		return job.Stdin{Mode: job.StdinOne}, nil
	}
	n, _ := strconv.ParseUint(r.stdin, 10, 32) // checked when it was parsed
	if size := l.Ranks(); n >= uint64(size) {
		return job.Stdin{}, exit.Usagef("--stdin %s: the job has ranks 0 to %d", r.stdin, size-1)
	}
	return job.Stdin{Mode: job.StdinOne, Rank: l.Seat(uint32(n))}, nil
}

// programs checks the programs, and divides the ranks among them.
func (p *plan) programs(r *request, at surroundings) error {
	first, size := uint32(0), 0
	for i, s := range r.segments {
		some := []job.Program{{First: first, Count: uint32(s.ranks), App: uint32(i), Argv: s.argv}}
		if len(r.segments) == 1 {
			some[0].Count = p.job.Size
		}
		first += some[0].Count
		if s.multi {
			var err error
			if some, err = multiProg(s.argv, p.job.Size); err != nil {
				return err
			}
		}
		env, drop := r.env.apply(at.env, s.sets)
		size += room(env)
		for _, prog := range some {
			prog.Env, prog.Drop, prog.Dir = env, drop, at.cwd
			if s.dir != "" {
				prog.Dir = absolute(s.dir, at.cwd)
			}
			if slices.ContainsFunc(slices.Concat(prog.Argv, prog.Env), func(w string) bool { return strings.IndexByte(w, 0) >= 0 }) {
				return exit.Usagef("an argument or variable contains a NUL byte")
			}
			if r.preflight {
				if err := preflight(prog); err != nil {
					return err
				}
			}
			size += room(prog.Argv)
			p.job.Programs = append(p.job.Programs, prog)
		}
	}
	if size > maxWords {
		return exit.Usagef("arguments and environment of all programs are %d MiB: at most %d are possible", size>>20, maxWords>>20)
	}
	return nil
}

// room is how much room words take in a frame.
func room(words []string) (n int) {
	for _, w := range words {
		n += len(w) + 4
	}
	return n
}

// absolute is a directory as seen from another.
func absolute(dir, from string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(from, dir)
}

// preflight looks for directory and program on this machine, since what is
// missing here is most likely missing everywhere.
func preflight(p job.Program) error {
	const hint = "; if it is on the nodes only, say --no-preflight"
	if st, err := os.Stat(p.Dir); err != nil {
		return exit.Usagef("working directory %s: %v%s", p.Dir, exit.Cause(err), hint)
	} else if !st.IsDir() {
		return exit.Usagef("working directory %s is not a directory%s", p.Dir, hint)
	}
	_, err := program.Find(p.Argv[0], p.Dir, p.Env)
	if code := exit.Code(err); err != nil && code == exit.NotFound {
		return exit.With(code, fmt.Errorf("%w%s", err, hint))
	}
	return err
}
