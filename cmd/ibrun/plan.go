package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/timing"
	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/internal/hostlist"
	"ibrun/internal/limits"
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
	shape    tree.Shape
	policy   core.Policy
	warnings []string
	source   string // of the costs in shape, in words
}

// exitError ends ibrun with a code of its own.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return e.err.Error() }
func (e exitError) Unwrap() error { return e.err }

// surroundings is what a plan takes from the process it is made in.
type surroundings struct {
	host   string
	user   string
	cwd    string
	env    []string
	book   timing.Book // costs of earlier launches
	umask  uint32
	limits [limits.Count]limits.Limit
}

// makePlan checks a request against this machine and its files.
func makePlan(r *request, at surroundings) (*plan, error) {
	p := &plan{warnings: slices.Concat(strangeKnobs(at.env), r.warnings, r.env.missing(at.env))}
	alloc, local, err := r.allocation(at)
	if err != nil {
		return nil, err
	}
	if local {
		p.warn(unreadAllocation(at.env))
	} else if alloc, err = p.leaveOut(r, alloc, at); err != nil {
		return nil, err
	}
	if alloc, err = p.holdBack(r, alloc, at); err != nil {
		return nil, err
	}
	if err := p.place(r, alloc, at); err != nil {
		return nil, err
	}
	if err := p.fewer(r); err != nil {
		return nil, err
	}
	p.alloc = alloc
	p.here = -1
	if local {
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
	j := p.job
	p.layOut(at, uint32(r.plane))
	j.Umask, j.Output, j.Launch = at.umask, r.output, r.launch
	for n, l := range at.limits {
		j.Limits = append(j.Limits, job.Limit{Resource: uint8(n), Soft: l.Soft, Hard: l.Hard})
	}
	j.Transport, j.Binding = r.transport(p.nodes.Len()), r.binding
	j.MPI, j.PMIPort = r.mpi, r.pmiPort
	if j.Stdin, err = r.reader(j.Layout); err != nil {
		return nil, err
	}
	j.Launch.Timed = r.wantsViews()
	p.shape, _ = tree.Parse(r.tree)
	p.measured(r, at.book)
	p.grow()
	j.Launch.Held, j.Launch.KeepGoing = r.spares > 0 || r.minNodes > 0, !r.killOnBad
	p.policy.KillOnBad, p.policy.Timeout, p.policy.Wait = r.killOnBad, r.timeout, r.wait
	if v, ok := lookupEnv(at.env, "MPIEXEC_TIMEOUT"); ok && r.timeout == 0 {
		if err := span(&p.policy.Timeout, v); err != nil {
			return nil, usagef("MPIEXEC_TIMEOUT: %v", err)
		}
	}
	return p, nil
}

// layOut tells the job of the nodes that it was placed on.
func (p *plan) layOut(at surroundings, plane uint32) {
	j := p.job
	j.Nodes, j.FirstHost, j.Layout = uint32(p.nodes.Len()), p.nodes.At(0).Host, p.nodes.Layout().Dealt(plane)
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
		return job.Stdin{}, usagef("--stdin %s: the job has ranks 0 to %d", r.stdin, size-1)
	}
	return job.Stdin{Mode: job.StdinOne, Rank: l.Seat(uint32(n))}, nil
}

// allocation is the hosts, or this machine if none are named.
func (r *request) allocation(at surroundings) (alloc job.Nodes, local bool, err error) {
	entries := r.hosts
	for _, name := range r.hostFiles {
		content, err := readText(name)
		if err != nil {
			return alloc, false, usagef("host file %v", err)
		}
		more, err := hostlist.File(name, content)
		if err != nil {
			return alloc, false, usageError{err.Error()}
		}
		entries = append(entries, more...)
	}
	if len(entries) == 0 {
		return job.NewNodes(0, []job.Run{{Prefix: at.host, Count: 1}}), true, nil
	}
	var runs []job.Run
	total := uint64(0)
	for _, e := range entries {
		total += uint64(e.Count)
		runs = append(runs, job.Run{Prefix: e.Prefix, Suffix: e.Suffix, Width: uint8(e.Width), Lo: e.Lo, Count: e.Count, User: e.User, HCA: e.HCA, Slots: e.Slots})
	}
	if total > job.MaxNodes {
		return alloc, false, usagef("%d hosts: at most %d are possible", total, job.MaxNodes)
	}
	alloc = job.NewNodes(0, runs).Unique()
	return alloc, false, nil
}

// place gives ranks to nodes and programs.
func (p *plan) place(r *request, alloc job.Nodes, at surroundings) error {
	p.job = &job.Job{}
	want := job.Want{Offset: r.offset, PerNode: r.perNode, Plane: r.plane, Weight: r.weights}
	if r.span {
		want.Plane = max(want.Plane, 1)
	}
	several := len(r.segments) > 1
	for i := range r.segments {
		s := &r.segments[i]
		if several && s.ranks == 0 {
			s.ranks = 1
		}
		want.Ranks += s.ranks
	}
	if v, ok := lookupEnv(at.env, "IBRUN_TASKS_PER_NODE"); ok && want.PerNode == 0 {
		if err := count(&want.PerNode, v, job.MaxRanks); err != nil {
			return usagef("IBRUN_TASKS_PER_NODE: %v", err)
		}
	}
	if per := r.binding.PerObj; per > 0 && want.PerNode == 0 {
		m, err := r.machine()
		if err != nil {
			return err
		}
		objects := len(m.Objects(kinds[r.binding.Map]))
		want.PerNode = uint64(per) * uint64(objects)
		p.warn(fmt.Sprintf("ppr: %d ranks per node, since %s has %s; nodes that differ will refuse: -ppn says another number", want.PerNode, r.example(), plural(objects, r.binding.Map.String())))
	}
	if r.offset > 0 && want.Ranks == 0 {
		return usagef("option -o is the offset of the TACC wrapper and goes with -n")
	}
	nodes, over, err := job.Place(alloc, want)
	if err != nil {
		return usageError{err.Error()}
	}
	if over && !r.crowd {
		p.warnings = append(p.warnings, fmt.Sprintf("%d ranks on %d slots: the nodes are oversubscribed", nodes.Ranks(), alloc.Slots()))
	}
	p.nodes = nodes
	p.job.Size = nodes.Ranks()
	return nil
}

// programs checks the programs, and divides the ranks among them.
func (p *plan) programs(r *request, at surroundings) error {
	first := uint32(0)
	for _, s := range r.segments {
		prog := job.Program{First: first, Count: uint32(s.ranks), Argv: s.argv, Dir: at.cwd}
		if len(r.segments) == 1 {
			prog.Count = p.job.Size
		}
		first += prog.Count
		if s.dir != "" {
			prog.Dir = absolute(s.dir, at.cwd)
		}
		prog.Env, prog.Drop = r.env.apply(at.env, s.sets)
		for _, w := range append(prog.Argv, prog.Env...) {
			if strings.IndexByte(w, 0) >= 0 {
				return usagef("an argument or variable contains a NUL byte")
			}
		}
		if r.preflight {
			if err := preflight(prog); err != nil {
				return err
			}
		}
		p.job.Programs = append(p.job.Programs, prog)
	}
	size := 0
	for _, prog := range p.job.Programs {
		for _, w := range slices.Concat(prog.Argv, prog.Env) {
			size += len(w) + 4
		}
	}
	if size > maxWords {
		return usagef("arguments and environment of all programs are %d MiB: at most %d are possible", size>>20, maxWords>>20)
	}
	return nil
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
		return usagef("working directory %s: %v%s", p.Dir, cause(err), hint)
	} else if !st.IsDir() {
		return usagef("working directory %s is not a directory%s", p.Dir, hint)
	}
	name := p.Argv[0]
	if name == "" {
		return exitError{127, errors.New("the program's name is empty")}
	}
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.Dir, path)
		}
		return runnable(path, name, hint)
	}
	list := "/usr/local/bin:/usr/bin:/bin"
	for _, e := range p.Env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			list = v
		}
	}
	var err error = exitError{127, fmt.Errorf("%s: not found in PATH%s", name, hint)}
	for _, d := range filepath.SplitList(list) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(p.Dir, d)
		}
		switch e := runnable(filepath.Join(d, name), name, hint); {
		case e == nil:
			return nil
		case e.(exitError).code == 126:
			err = e
		}
	}
	return err
}

func runnable(path, name, hint string) error {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		text := fmt.Sprintf("%s: no such file%s", name, hint)
		return exitError{127, errors.New(text)}
	case err != nil:
		return exitError{126, fmt.Errorf("%s: %w", name, cause(err))}
	case st.IsDir():
		return exitError{126, fmt.Errorf("%s: is a directory", name)}
	case unix.Access(path, unix.X_OK) != nil:
		return exitError{126, fmt.Errorf("%s: is not executable; try chmod +x %s", name, path)}
	}
	return nil
}
