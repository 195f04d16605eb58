package poll

import (
	"sync"
	"sync/atomic"
	"time"
)

// Turn is the right to read. The owner has it at first.
type Turn struct {
	free      chan struct{} // capacity 1: who takes the token may read
	requested atomic.Bool   // somebody waits for the turn: the owner should make way
	left      atomic.Int64  // when the last driver left, in ns since began
	armed     atomic.Bool   // the timer runs
	patience  atomic.Int64  // ns after which the descriptor is vacant
	timer     *time.Timer
	vacant    chan struct{} // the turn, for the owner
	over      chan struct{}
	once      sync.Once
	began     time.Time
}

// standBy is how long the socket is left to drivers at first: longer than a program
// takes from one receive to the next when it does nothing else. While they come back,
// it doubles up to longestStandBy, so that a timer does not fire for every few
// messages. That is shorter than anybody's patience for an acknowledgement.
const (
	standBy        = 200 * time.Microsecond
	longestStandBy = 16 * standBy
)

// NewTurn returns a Turn that belongs to the owner first. The owner is the goroutine that reads if no other does.
func NewTurn() *Turn {
	t := &Turn{free: make(chan struct{}, 1), vacant: make(chan struct{}), over: make(chan struct{}),
		began: time.Now()}
	t.patience.Store(int64(standBy))
	t.timer = time.AfterFunc(time.Hour, t.look)
	t.timer.Stop()
	return t
}

// End makes Wait return.
func (t *Turn) End() {
	t.once.Do(func() { close(t.over) })
	t.timer.Stop()
}

// look gives the turn to the owner if no driver has had it for a while.
func (t *Turn) look() {
	t.armed.Store(false)
	patience := time.Duration(t.patience.Load())
	if since := time.Since(t.began) - time.Duration(t.left.Load()); since < patience {
		t.longer(patience)
		t.arm(patience - since)
		return
	}
	select {
	case <-t.free:
		t.patience.Store(int64(standBy))
		t.Pass()
	default: // somebody drives; Leave will call us
		t.longer(patience)
	}
}

func (t *Turn) longer(patience time.Duration) {
	t.patience.Store(int64(min(2*patience, longestStandBy)))
}

func (t *Turn) arm(after time.Duration) {
	if !t.armed.Swap(true) {
		t.timer.Reset(after)
	}
}

// Free is where a driver takes the turn; who takes it must call Leave.
func (t *Turn) Free() <-chan struct{} { return t.free }

// Want asks the owner to make way after what it reads next.
func (t *Turn) Want() { t.requested.Store(true) }

// Wanted reports, once, whether the owner should make way.
func (t *Turn) Wanted() bool { return t.requested.Swap(false) }

// Give gives the turn back for good: its owner has ended.
func (t *Turn) Give() { t.free <- struct{}{} }

// Pass gives the turn to the owner, which waits for it or will.
func (t *Turn) Pass() {
	select {
	case t.vacant <- struct{}{}:
	case <-t.over:
		t.free <- struct{}{}
	}
}

// Leave gives the turn back.
func (t *Turn) Leave() {
	t.left.Store(int64(time.Since(t.began)))
	t.free <- struct{}{}
	t.arm(time.Duration(t.patience.Load()))
}

// Wait returns with the turn when no driver has had it for a while, or false
// at the end.
func (t *Turn) Wait() bool {
	select {
	case <-t.vacant:
		return true
	case <-t.over:
		return false
	}
}
