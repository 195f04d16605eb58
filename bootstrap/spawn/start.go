package spawn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"ibrun/internal/proc"
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
	if needs.libpmi {
		if err := s.prepareMPI(env); err != nil {
			return fail(126, err)
		}
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
		c.path, c.code, c.err = lookup(p.Argv[0], p.Dir, c.env.list)
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
		Most: s.cfg.Job.Launch.Timeout,
	}
	if len(s.stub) > 0 {
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

// lookup finds the program as a shell would in the ranks' directory and with
// the ranks' PATH. The code goes with the error: 127 not found, 126 found but
// not to be run.
func lookup(name, dir string, env []string) (path string, code uint8, err error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		code, err = runnable(name)
		return name, code, err
	}
	list := "/usr/local/bin:/usr/bin:/bin"
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, "PATH="); ok {
			list = v
		}
	}
	code, err = 127, fmt.Errorf("%s: not found in PATH (%s)", name, list)
	for _, d := range filepath.SplitList(list) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		p := filepath.Join(d, name)
		c, e := runnable(p)
		if e == nil {
			return p, 0, nil
		}
		if c == 126 && code == 127 {
			code, err = c, e
		}
	}
	return "", code, err
}

// runnable says whether a file could be executed by this process.
func runnable(path string) (code uint8, err error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return 127, fmt.Errorf("%s: no such file", path)
	case err != nil:
		return 126, err
	case st.IsDir():
		return 126, fmt.Errorf("%s: is a directory", path)
	case syscall.Access(path, 1) != nil:
		return 126, fmt.Errorf("%s: is not executable; try chmod +x", path)
	}
	return 0, nil
}
