package spawn

import (
	"errors"
	"io/fs"
	"sync"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/internal/proc"
)

// stall is what the start of the ranks is at, and since when: a file system that
// does not answer keeps it for ever. Nothing that may hang is done with its lock.
type stall struct {
	mu    sync.Mutex
	op    string // empty: nothing that may hang, or what has an end of its own
	path  string
	since time.Time
	over  bool // no rank may be started any more
}

func (s *stall) at(op, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.op, s.path, s.since = op, path, time.Now()
}

// hung is how long there is to wait yet, and the error of what has taken longer
// than most, or nil.
func (s *stall) hung(most time.Duration) (left time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left = most - time.Since(s.since); s.op == "" || left > 0 {
		return max(left, most/10), nil
	}
	return 0, &fs.PathError{Op: s.op, Path: s.path, Err: proc.Hung(most)}
}

// startInTime starts ranks. If that hangs it is given up: what has not begun then never
// does. A session has the same time.
func (s *Set) startInTime(ranks []*rank, start func() []core.ForkFailure) []core.ForkFailure {
	begun := make(chan []core.ForkFailure, 1)
	s.stall.at("", "")
	go func() { begun <- start() }()
	most := s.cfg.Job.Launch.Timeout
	for left := most; ; {
		var look <-chan time.Time // without a time there is none
		if most > 0 {
			look = time.After(left)
		}
		select {
		case failed := <-begun:
			return failed
		case <-look:
			var err error
			if left, err = s.stall.hung(most); err != nil {
				return s.giveUp(ranks, err)
			}
		}
	}
}

// giveUp fails all of some ranks that do not run.
func (s *Set) giveUp(ranks []*rank, err error) (failed []core.ForkFailure) {
	s.stall.forbid()
	for _, r := range ranks {
		if r.running() == nil {
			failed = append(failed, core.ForkFailure{Rank: r.slot, Code: 126, Cause: advised(err)})
		}
	}
	return failed
}

// forbid lets no rank begin any more.
func (s *stall) forbid() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

func (s *stall) forbidden() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// allow takes a rank's process in, unless it comes too late.
func (s *stall) allow(r *rank, p *proc.Process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.process = p
	}
	return !s.over
}

// running is a rank's process, or nil.
func (r *rank) running() *proc.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}

// hasHung reports whether an error is that of something that took too long.
func hasHung(err error) bool {
	hung := proc.Hung(0)
	return errors.As(err, &hung)
}

// advised is the text of an error, with what to try if something has hung.
func advised(err error) string {
	if hasHung(err) {
		return err.Error() + "; hint: does its file system answer on that node? --launch-timeout allows more"
	}
	return err.Error()
}
