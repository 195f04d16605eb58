package ib

import (
	"time"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
)

// mendEvery is how often a port that is down is looked at. Its event may be lost, or come before
// the queue pair can be used.
const mendEvery = 200 * time.Millisecond

// spared tells the owner that the endpoint does not work for now, and reports whether it does
// without. The caller holds no lock: the owner has some that it holds when it posts.
func (f *Fabric) spared(err error) bool {
	w, ok := f.sink.(fabric.Watcher)
	switch {
	case !ok || f.ending.Err() != nil || f.failed.Load():
		return false
	case f.mute.Swap(true):
		return true // it was told
	case !w.Down(err):
		f.mute.Store(false)
		return false
	}
	go f.mend(w)
	return true
}

// datagramsFail says that the queue pair for datagrams has failed. RoCE's fails when the network
// interface goes down, and that may be known before the event of the port comes.
func (f *Fabric) datagramsFail(err error) {
	if !f.spared(err) {
		f.lost(err)
	}
}

// mend looks at the port until it is active and datagrams can be sent again.
func (f *Fabric) mend(w fabric.Watcher) {
	ticker := time.NewTicker(mendEvery)
	defer ticker.Stop()
	for {
		select {
		case <-f.ending.Done():
			return
		case <-ticker.C:
		}
		if f.failed.Load() {
			return
		}
		port, err := f.dev.ctx.Port(f.dev.port.number)
		if err != nil || port.State != verbs.PortActive || f.still() != nil || f.remake() != nil {
			continue
		}
		f.health.mu.Lock()
		f.health.down = nil
		f.health.mu.Unlock()
		f.mute.Store(false)
		w.Up()
		return
	}
}

// remake brings the queue pair for datagrams back to where it can send and receive, with the number
// that it has.
func (f *Fabric) remake() error {
	out, in := &f.out, &f.in
	in.mu.Lock() // its goroutine does not poll
	defer in.mu.Unlock()
	out.mu.Lock()
	defer out.mu.Unlock()
	if out.closed || f.ending.Err() != nil {
		return fabric.ErrClosed
	}
	if err := out.qp.Modify(verbs.QPState{State: verbs.Reset}); err != nil {
		return err
	}
	for _, q := range []*verbs.CQ{in.cq, out.cq} { // what is left in them is of before
		for n := 1; n > 0; {
			var err error
			if n, err = q.Poll(in.ends[:]); err != nil {
				return err
			}
		}
	}
	out.done, out.broken = out.posted, nil
	return f.ready(func() error {
		for _, r := range in.rings {
			if _, err := out.qp.PostReceive(r.requests()); err != nil {
				return err
			}
		}
		return nil
	})
}
