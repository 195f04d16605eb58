package spawn

import (
	"os"
	"path/filepath"
	"syscall"

	"ibrun/internal/job"
	"ibrun/internal/proc"
	"ibrun/internal/safefile"
)

// ends are the descriptors of one rank on both sides.
type ends struct {
	child []*os.File // 0, 1, 2 of the rank, and its control channel
	read  [3]*os.File
	copy  [3]*os.File // files that get what is read, too
	feed  *os.File
	null  *os.File // among the rank's: it is the others', too
}

// close closes the rank's side, and what nobody has taken of ours.
func (e *ends) close() {
	closed := map[*os.File]bool{nil: true, e.null: true}
	for _, files := range [][]*os.File{e.child, e.read[:], e.copy[:], {e.feed}} {
		for _, f := range files {
			if !closed[f] {
				f.Close()
				closed[f] = true
			}
		}
	}
}

// connect opens the descriptors of one rank.
func (s *Set) connect(r *rank) (e ends, err error) {
	e.child = make([]*os.File, ControlFD+1)
	if e.child[ControlFD], err = r.control.open(); err != nil {
		return e, err
	}
	if r.terminal {
		return e, connectTerminal(&e, s.cfg.Job.Output.Window)
	}
	if err := s.connectInput(r, &e); err != nil {
		return e, err
	}
	return e, s.connectOutput(r, &e)
}

// connectTerminal gives a process a terminal, whose other end is read and written.
func connectTerminal(e *ends, size job.Window) (err error) {
	ours, theirs, err := proc.OpenTerminal(size.Rows, size.Cols, false)
	if err != nil {
		return err
	}
	e.read[1], e.child[0], e.child[1], e.child[2] = ours, theirs, theirs, theirs
	e.feed, err = proc.Again(ours)
	return err
}

func (s *Set) connectInput(r *rank, e *ends) (err error) {
	switch {
	case s.cfg.Job.Output.StdinFile != "":
		name, err := s.file(s.cfg.Job.Output.StdinFile, r)
		if err != nil {
			return err
		}
		s.stall.at("open", name)
		e.child[0], err = os.OpenFile(name, os.O_RDONLY|syscall.O_NOCTTY, 0) // O_NOCTTY: see safefile.Create
		return err
	case r.feed != nil && !r.charm: // what such a program reads it asks for
		e.child[0], e.feed, err = proc.PipeTo()
	default:
		if s.null == nil {
			s.null, err = os.Open(os.DevNull)
		}
		e.child[0], e.null = s.null, s.null
	}
	return err
}

func (s *Set) connectOutput(r *rank, e *ends) (err error) {
	out := s.cfg.Job.Output
	patterns := [3]string{1: out.StdoutFile, 2: out.StderrFile}
	var names [3]string
	for stream := 1; stream <= 2; stream++ {
		if names[stream], err = s.file(patterns[stream], r); err != nil {
			return err
		}
		if stream == 2 && (out.Merge || names[2] != "" && names[2] == names[1]) {
			e.child[2] = e.child[1]
			continue
		}
		file, err := s.openOutput(r, names[stream])
		if err != nil {
			return err
		}
		if file != nil && !out.Copy {
			e.child[stream] = file
			continue
		}
		e.copy[stream] = file
		open := proc.PipeFrom
		if stream == 1 && out.Lines {
			open = func() (ours, theirs *os.File, err error) { return proc.OpenTerminal(0, 0, true) }
		}
		if e.read[stream], e.child[stream], err = open(); err != nil {
			return err
		}
	}
	return nil
}

// openOutput opens a per-rank file, if there is one. A rank that was restarted goes on in it.
func (s *Set) openOutput(r *rank, name string) (*os.File, error) {
	if name == "" {
		return nil, nil
	}
	s.stall.at("open", name)
	if s.cfg.Job.Output.Dirs {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			return nil, err
		}
	}
	if r.start > 0 {
		return safefile.Continue(name)
	}
	return safefile.Replace(name)
}

// file is the name of a per-rank file, by its pattern; empty if there is none.
func (s *Set) file(pattern string, r *rank) (string, error) {
	name, err := s.expand(pattern, r)
	if err != nil || name == "" || filepath.IsAbs(name) {
		return name, err
	}
	return filepath.Join(r.program.Dir, name), nil
}
