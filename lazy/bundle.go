package lazy

import (
	"time"

	"ibrun/lazy/peer"
)

// bundleShare limits the messages that wait in a bundle: each fills at most 1/bundleShare of a packet.
const bundleShare = 4

// joins reports whether m can be added to the bundle or can start one. The caller holds Table.fmu.
func (f *remotePeer) joins(m []byte) bool {
	most := f.peer.Packet()
	return f.t.cfg.Bundle > 0 && len(m) <= most/bundleShare && len(f.bundle.body)+peer.BundledHead+len(m) <= most
}

// join adds m to the bundle. If another message of the same length would not fit, join sends the bundle.
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

// wait starts the timer, which calls due after d, unless the timer is running.
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

// bundleDue is called when the timer of the bundle expires. If the current bundle was started after the timer,
// bundleDue starts the timer again for the rest of the time.
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

// unbundle sends the bundle, if there is one. The caller holds Table.fmu.
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
