package spawn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"ibrun/bootstrap/core"
	"ibrun/internal/exit"
	"ibrun/internal/job"
	"ibrun/internal/proc"
)

// mostStarting is the maximum number of ranks that are started at the same time. While one rank executes its program,
// the next is forked. Each start uses descriptors and a stack until its program runs.
const mostStarting = 16

// startingAtATime returns how many ranks may be started at the same time. It returns 1 if ranks have files for their
// standard streams. Opening such a file may block, and the start of earlier ranks must be complete by then.
func (s *Set) startingAtATime() int {
	if out := s.cfg.Job.Output; out.StdinFile != "" || out.StdoutFile != "" || out.StderrFile != "" {
		return 1
	}
	return mostStarting
}

// startRanks starts some ranks in their order, and returns those that do not run. refused is why
// none of this node may start. The first rank of a program is waited for: where its file system does
// not answer, one process hangs that nobody can end, and not as many as there are ranks.
func (s *Set) startRanks(ranks []*rank, refused error) (failed []core.ForkFailure) {
	proc.Row(func(begin proc.Beginner) {
		var begun []*starting
		end := func() {
			if f := s.endStart(begun[0], begin); f != nil {
				failed = append(failed, *f)
			}
			begun = begun[1:]
		}
		most := s.startingAtATime()
		for i, r := range ranks {
			begun = append(begun, s.beginStart(r, refused, begin))
			first, last := i == 0 || ranks[i-1].program != r.program, i == len(ranks)-1
			for len(begun) == most || len(begun) > 0 && (first || last) {
				end()
			}
		}
	})
	return failed
}

// starting is a rank whose process may not execute its program yet.
type starting struct {
	rank  *rank
	ends  ends
	cmd   proc.Cmd
	code  uint8 // exit code of the rank if err is not nil
	err   error
	birth *proc.Birth
}

// beginStart forks the process of one rank.
func (s *Set) beginStart(r *rank, refused error, begin proc.Beginner) *starting {
	st := &starting{rank: r}
	st.code, st.err = s.fork(st, refused, begin)
	return st
}

// fork forks the process of one rank for beginStart. If it returns an error, code is the exit code of the rank.
func (s *Set) fork(st *starting, refused error, begin proc.Beginner) (code uint8, err error) {
	if refused != nil {
		return 125, refused
	}
	if s.stall.forbidden() {
		return 126, errors.New("the job ended first")
	}
	r := st.rank
	s.stall.at("stat", r.program.Argv[0])
	what := s.recipe(r.program)
	if what.err != nil {
		return what.code, what.err
	}
	s.stall.at("open", what.path)
	r.path = what.path
	env := what.env.of(r.place.devices, s.identity(r, what.needs.pmi))
	if err := s.prepareMPI(env, r, what.needs); err != nil {
		return 126, err
	}
	if st.ends, err = s.connect(r); err != nil {
		return 126, err
	}
	argv, err := r.argv()
	if err != nil {
		return 126, err
	}
	s.stall.at("", "") // the start has an end of its own
	st.cmd = proc.Cmd{
		Path: what.path, Argv: argv, Env: env.list, Dir: r.program.Dir, Files: st.ends.child, Setpgid: true, Terminal: r.terminal,
		Thread: r.place.thread, Most: s.cfg.Job.Launch.Timeout, Group: s.group.Dir(), Limits: s.limits,
		Hold: s.cfg.Job.Launch.Hold && r.start == 0,
	}
	st.birth = begin(st.cmd)
	return 0, nil
}

// endStart waits until the rank runs, or returns why it does not.
func (s *Set) endStart(st *starting, begin proc.Beginner) *core.ForkFailure {
	defer st.ends.close()
	var process *proc.Process
	if st.err == nil {
		process, st.code, st.err = execute(st.cmd, st.birth, begin)
	}
	if hasHung(st.err) {
		s.stall.forbid() // the start of further ranks would take as long
	}
	if st.err == nil && !s.stall.allow(st.rank, process) {
		process.SignalGroup(syscall.SIGKILL)
		st.code, st.err = 126, errors.New("the job ended first")
	}
	if st.err == nil {
		st.rank.streams.start(&st.ends)
		return nil
	}
	st.rank.feed.close()
	st.rank.control.close()
	return &core.ForkFailure{Rank: st.rank.slot, Code: st.code, Cause: advised(st.err)}
}

// argv returns the arguments of the program of the rank.
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
	env   *environment
	path  string
	needs needs
	code  uint8
	err   error
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
	} else if c.path, c.err = FindProgram(p.Argv[0], p.Dir, c.env.list); c.err != nil {
		c.code = uint8(exit.Code(c.err))
	} else {
		s.stall.at("open", c.path)
		c.needs = s.needs(c.path, p)
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

// execute waits until the process of birth, which begin has forked for c, runs its program. If the program is a text
// that the kernel cannot execute, execute starts a shell that runs it, as execvp does. If it returns an error, code is
// the exit code of the rank.
func execute(c proc.Cmd, birth *proc.Birth, begin proc.Beginner) (p *proc.Process, code uint8, err error) {
	if p, err = birth.Result(); err == nil {
		return p, 0, nil
	}
	if code, err = refusal(c.Path, err, true); err != nil {
		return nil, code, err
	}
	c.Path, c.Argv = "/bin/sh", append([]string{"sh", c.Path}, c.Argv[1:]...)
	p, err = begin(c).Result()
	return p, 126, err
}
