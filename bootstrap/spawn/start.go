package spawn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"ibrun/internal/exit"
	"ibrun/internal/proc"
	"ibrun/internal/program"
	"ibrun/job"
)

// starter starts a process: proc.Start, or its like within proc.Row.
type starter func(proc.Cmd) (*proc.Process, error)

// startRank starts one rank, or says why not. refused is why none of this node
// may start.
func (s *Set) startRank(r *rank, refused error, start starter) *Failure {
	fail := func(code uint8, err error) *Failure {
		if r.feed != nil {
			r.feed.close()
		}
		r.control.close()
		return &Failure{r.slot, code, advised(err)}
	}
	if refused != nil {
		return fail(125, refused)
	}
	if s.stall.forbidden() {
		return fail(126, errors.New("the job ended first"))
	}
	s.stall.at("stat", r.program.Argv[0])
	what := s.recipe(r.program)
	if what.err != nil {
		return fail(what.code, what.err)
	}
	r.path = what.path
	s.stall.at("open", what.path)
	path, needs := what.path, s.needs(r, what.path)
	env := what.env.of(r.place.devices, s.identity(r, needs.pmi))
	if err := s.prepareMPI(env, r, needs); err != nil {
		return fail(126, err)
	}
	ends, err := s.connect(r)
	defer ends.close()
	if err != nil {
		return fail(126, err)
	}
	argv, err := r.argv()
	if err != nil {
		return fail(126, err)
	}
	s.stall.at("", "") // the start has an end of its own
	p, code, err := s.exec(path, argv, env.list, r, ends.child, start)
	if hasHung(err) {
		s.stall.forbid() // the others would take as long
	}
	if err == nil && !s.stall.allow(r, p) {
		p.SignalGroup(syscall.SIGKILL)
		err = errors.New("the job ended first")
	}
	if err != nil {
		return fail(code, err)
	}
	ends.give(r)
	return nil
}

// argv is the rank's arguments.
func (r *rank) argv() ([]string, error) {
	p := r.program
	if !p.Expand {
		return p.Argv, nil
	}
	argv := make([]string, len(p.Argv))
	for i, arg := range p.Argv {
		var err error
		argv[i], err = job.Expand(arg, func(letter byte, width int) (string, bool) {
			switch letter {
			case 't':
				return job.Padded(uint64(r.rank), width), true
			case 'o':
				return job.Padded(uint64(p.Offset)+uint64(r.rank-p.First), width), true
			}
			return "", false
		})
		if err != nil {
			return nil, err
		}
	}
	return argv, nil
}

// recipe is what all ranks of a program are started with on this node, or why none
// of them can be.
type recipe struct {
	env  *environment
	path string
	code uint8
	err  error
}

// recipe is made once for each program: to match this node's names against all
// that are a node's own takes longer than a fork, and to look the program up almost
// as long. It is Start's alone.
func (s *Set) recipe(p *job.Program) *recipe {
	if c := s.recipes[p]; c != nil {
		return c
	}
	c := &recipe{env: shared(os.Environ(), p)}
	if st, err := os.Stat(p.Dir); err != nil || !st.IsDir() {
		c.code, c.err = 126, fmt.Errorf("working directory %s: %w", p.Dir, notDir(err))
	} else {
		if c.path, c.err = program.Find(p.Argv[0], p.Dir, c.env.list); c.err != nil {
			c.code = uint8(exit.Code(c.err))
		}
	}
	if s.recipes == nil {
		s.recipes = map[*job.Program]*recipe{}
	}
	s.recipes[p] = c
	return c
}

func notDir(err error) error {
	if err == nil {
		return syscall.ENOTDIR
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// exec starts the program itself, through the stub if limits ask for it. A text that
// the kernel does not know how to run is given to the shell, as execvp does. The
// code goes with the error.
func (s *Set) exec(path string, argv, env []string, r *rank, files []*os.File, start starter) (p *proc.Process, code uint8, err error) {
	c := proc.Cmd{
		Path: path, Argv: argv, Env: env, Dir: r.program.Dir, Files: files, Setpgid: true, Terminal: r.terminal, Thread: r.place.thread,
		Most: s.cfg.Job.Launch.Timeout, Group: s.group.Dir(),
	}
	if s.cfg.Job.Launch.Hold && r.start == 0 {
		c.Hold, c.HoldLimits = true, s.heldLimits
	} else if len(s.stub) > 0 {
		p, err = s.execLimited(c, start)
		return p, 126, err
	}
	if p, err = start(c); err == nil {
		return p, 0, nil
	}
	if code, err = refusal(path, err); err != nil {
		return nil, code, err
	}
	c.Path, c.Argv = "/bin/sh", byShell(path, argv)
	p, err = start(c)
	return p, 126, err
}

// byShell are the words by which a shell runs a script.
func byShell(path string, argv []string) []string {
	return append([]string{"sh", path}, argv[1:]...)
}
