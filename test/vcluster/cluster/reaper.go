package cluster

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// reaper starts child processes of an init. It reaps these and all orphans of the node when they end.
type reaper struct {
	mu      sync.Mutex // held over fork and registration, so that no death is dispatched in between
	waiters map[int]chan syscall.WaitStatus
}

func newReaper() *reaper {
	r := &reaper{waiters: map[int]chan syscall.WaitStatus{}}
	deaths := make(chan os.Signal, 1) // One pending signal is enough, because reap reaps all dead children.
	signal.Notify(deaths, syscall.SIGCHLD)
	go func() {
		for range deaths {
			r.reap()
		}
	}()
	return r
}

func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if done := r.waiters[pid]; done != nil {
			done <- status // capacity one, sent once
			delete(r.waiters, pid)
		}
	}
}

// start starts a program. It returns the process id, and a channel on which reap sends the exit status once.
func (r *reaper) start(path string, argv []string, attr *syscall.ProcAttr) (int, <-chan syscall.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return 0, nil, err
	}
	done := make(chan syscall.WaitStatus, 1)
	r.waiters[pid] = done
	return pid, done, nil
}
