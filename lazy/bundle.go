package lazy

import (
	"time"

	"ibrun/lazy/peer"
)

// bundleShare of a packet is the most that a message has which waits for others.
const bundleShare = 4

// joins reports whether a message can be added to the bundle, or begins one; the caller holds the
// lock.
func (f *remotePeer) joins(m []byte) bool {
	most := f.peer.Packet()
	return f.t.cfg.Bundle > 0 && len(m) <= most/bundleShare && len(f.bundle.body)+peer.BundledHead+len(m) <= most
}

// join adds a message to the bundle, which leaves if another one like it would not fit.
func (f *remotePeer) join(m []byte) {
	b := &f.bundle
	if b.body == nil {
		b.body = make([]byte, 0, f.peer.Packet())
		b.since = f.used
		b.wait(f.t.cfg.Bundle, f.bundleDue)
		if !f.up {
			f.t.step(f, peer.Event{Kind: peer.Warm})
		}
	}
	b.body = peer.AppendBundled(b.body, m)
	b.count++
	if !f.joins(m) {
		f.unbundle()
	}
}

// wait sets the timer, unless it runs.
func (b *bundle) wait(d time.Duration, due func()) {
	switch {
	case b.armed:
		return
	case b.timer == nil:
		b.timer = time.AfterFunc(d, due)
	default:
		b.timer.Reset(d)
	}
	b.armed = true
}

// bundleDue is the timer: it runs on for a bundle that came after the one that it was set for.
func (f *remotePeer) bundleDue() {
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	b := &f.bundle
	b.armed = false
	if f.t.stopped || f.departed || len(b.body) == 0 {
		return
	}
	if rest := b.since + f.t.cfg.Bundle - time.Since(f.t.began); rest > 0 {
		b.wait(rest, f.bundleDue)
		return
	}
	f.unbundle()
}

// unbundle sends the bundle, if there is one; the caller holds the lock.
func (f *remotePeer) unbundle() {
	b := &f.bundle
	if len(b.body) == 0 {
		return
	}
	ev := peer.Event{Kind: peer.Bundle, Msg: b.body}
	if b.count == 1 {
		ev = peer.Event{Kind: peer.Send, Msg: b.body[peer.BundledHead:]}
	}
	b.drop()
	f.t.step(f, ev)
}
