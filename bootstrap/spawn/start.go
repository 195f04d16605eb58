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
		r.door.close()
		return &Failure{r.number, code, err.Error()}
	}
	if refused != nil {
		return fail(125, refused)
	}
	s.mu.Lock()
	killed := s.killed
	s.mu.Unlock()
	if killed {
		return fail(126, errors.New("the job ended first"))
	}
	what := s.recipe(r.program)
	if what.err != nil {
		return fail(what.code, what.err)
	}
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
	p, err := s.exec(path, r.program.Argv, env.list, r, ends.child, start)
	if err != nil {
		code := uint8(126)
		if errors.Is(err, fs.ErrNotExist) {
			code = 127 // a script whose interpreter is missing, or a lost race
		}
		return fail(code, err)
	}
	r.mu.Lock()
	r.process = p
	r.mu.Unlock()
	for stream, f := range ends.read {
		if f != nil {
			r.readers[stream].start(f)
			ends.read[stream] = nil
		}
	}
	if ends.feed != nil {
		r.feed.start(ends.feed)
		ends.feed = nil
	}
	return nil
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

// exec starts the program itself, through the stub if limits ask for it. What
// the kernel does not know how to run is given to the shell, as execvp does.
func (s *Set) exec(path string, argv, env []string, r *rank, files []*os.File, start starter) (*proc.Process, error) {
	c := proc.Cmd{Path: path, Argv: argv, Env: env, Dir: r.program.Dir, Files: files, Setpgid: true, Thread: r.place.thread}
	if len(s.stub) > 0 {
		c.Path = "/proc/self/exe"
		c.Argv = append([]string{"ibrun", LimitRole, strings.Join(s.stub, ","), path}, argv...)
	}
	p, err := start(c)
	if errors.Is(err, syscall.ENOEXEC) {
		c.Path, c.Argv = "/bin/sh", append([]string{"sh", path}, argv[1:]...)
		p, err = start(c)
	}
	return p, err
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

// ends are the descriptors of one rank on both sides.
type ends struct {
	child []*os.File // 0, 1, 2 of the rank, and its door
	read  [3]*os.File
	feed  *os.File
	null  *os.File // among the rank's: it is the others', too
}

// close closes the rank's side, and what nobody has taken of ours.
func (e *ends) close() {
	for i, f := range append(append(e.child, e.read[:]...), e.feed) {
		if f != nil && f != e.null && !(i == 2 && f == e.child[1]) {
			f.Close()
		}
	}
}

// connect opens the descriptors of one rank.
func (s *Set) connect(r *rank) (e ends, err error) {
	out := s.cfg.Job.Output
	e.child = make([]*os.File, DoorNumber+1)
	if e.child[DoorNumber], err = r.door.open(); err != nil {
		return e, err
	}
	switch {
	case out.StdinFile != "":
		e.child[0], err = openFor(s.inDir(r, s.expand(out.StdinFile, r)), os.O_RDONLY)
	case r.feed != nil:
		e.child[0], e.feed, err = proc.PipeTo()
	default:
		if s.null == nil {
			s.null, err = os.Open(os.DevNull)
		}
		e.child[0], e.null = s.null, s.null
	}
	if err != nil {
		return e, err
	}
	names := [3]string{1: out.StdoutFile, 2: out.StderrFile}
	if out.Merge {
		names[2] = names[1]
	}
	for stream := 1; stream <= 2; stream++ {
		name := s.expand(names[stream], r)
		switch {
		case stream == 2 && (out.Merge || name != "" && name == s.expand(names[1], r)):
			e.child[2] = e.child[1]
		case name != "":
			e.child[stream], err = openFor(s.inDir(r, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
		default:
			e.read[stream], e.child[stream], err = proc.PipeFrom()
		}
		if err != nil {
			return e, err
		}
	}
	return e, nil
}

// openFor opens a rank's file. A terminal must not become the controlling one of this session, which
// is the ranks', too: it would stop those that read it, and end all when it is closed.
func openFor(name string, flags int) (*os.File, error) {
	return os.OpenFile(name, flags|syscall.O_NOCTTY, 0o666)
}

func (s *Set) inDir(r *rank, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(r.program.Dir, name)
}
