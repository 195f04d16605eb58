package udp

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"ibrun/fabric"
)

// wheel says whose turn it is to read the socket: the fabric's own goroutine,
// or somebody who waits for a message and has nothing better to do. When the
// last driver has left for a while, the goroutine takes over, so that
// acknowledgements do not wait for the application.
type wheel struct {
	turn      chan struct{} // capacity 1: who takes the token may read
	requested atomic.Bool   // somebody waits for the turn: the goroutine should make way
	left      atomic.Int64  // when the last driver left, in ns since began
	armed     atomic.Bool   // the timer runs
	patience  atomic.Int64  // ns after which the socket is vacant
	timer     *time.Timer
	vacant    chan struct{} // the turn, for the goroutine
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

func newWheel() *wheel {
	w := &wheel{turn: make(chan struct{}, 1), vacant: make(chan struct{}), over: make(chan struct{}),
		began: time.Now()}
	w.turn <- struct{}{}
	w.patience.Store(int64(standBy))
	w.timer = time.AfterFunc(time.Hour, w.look)
	w.timer.Stop()
	return w
}

func (w *wheel) end() {
	w.once.Do(func() { close(w.over) })
	w.timer.Stop()
}

// look gives the turn to the goroutine if no driver has had it for a while.
func (w *wheel) look() {
	w.armed.Store(false)
	patience := time.Duration(w.patience.Load())
	if since := time.Since(w.began) - time.Duration(w.left.Load()); since < patience {
		w.longer(patience)
		w.arm(patience - since)
		return
	}
	select {
	case <-w.turn:
		w.patience.Store(int64(standBy))
		select {
		case w.vacant <- struct{}{}:
		case <-w.over:
			w.turn <- struct{}{}
		}
	default: // somebody drives; leave will call us
		w.longer(patience)
	}
}

func (w *wheel) longer(patience time.Duration) {
	w.patience.Store(int64(min(2*patience, longestStandBy)))
}

func (w *wheel) arm(after time.Duration) {
	if !w.armed.Swap(true) {
		w.timer.Reset(after)
	}
}

// leave gives the turn back.
func (w *wheel) leave() {
	w.left.Store(int64(time.Since(w.began)))
	w.turn <- struct{}{}
	w.arm(time.Duration(w.patience.Load()))
}

// wait returns with the turn when no driver has had it for a while, or false
// at the end.
func (w *wheel) wait() bool {
	select {
	case <-w.vacant:
		return true
	case <-w.over:
		return false
	}
}

// receive is the fabric's own goroutine.
func (f *Fabric) receive() {
	<-f.drive.turn
	for {
		if err := f.read(); errors.Is(err, net.ErrClosed) {
			f.drive.turn <- struct{}{}
			return
		}
		if f.drive.requested.Swap(false) {
			f.drive.leave()
			if !f.drive.wait() {
				return
			}
		}
	}
}

// Turn implements fabric.Driver.
func (f *Fabric) Turn() <-chan struct{} { return f.drive.turn }

// Want implements fabric.Driver.
func (f *Fabric) Want() { f.drive.requested.Store(true) }

// Drive implements fabric.Driver.
func (f *Fabric) Drive() {
	_ = f.read() // what ends it, ends the receiver's wait too
	f.drive.leave()
}

// Pass implements fabric.Driver.
func (f *Fabric) Pass() { f.drive.leave() }

// Wake implements fabric.Driver.
func (f *Fabric) Wake() { _ = f.conn.SetReadDeadline(past) }

var past = time.Unix(1, 0)

// read hands one datagram to the sink; the caller has the turn.
func (f *Fabric) read() error {
	n, from, err := f.conn.ReadFromUDPAddrPort(f.buf)
	switch {
	case err == nil:
		f.received.Add(1)
		f.receivedBytes.Add(uint64(n))
		f.sink.Datagram(fabric.Ethernet(from), f.buf[:n])
	case errors.Is(err, os.ErrDeadlineExceeded): // Wake
		_ = f.conn.SetReadDeadline(time.Time{})
	}
	return err // others are of datagrams that were sent before
}
