package ib

import (
	"fmt"
	"time"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
)

// watch is the goroutine that takes events until the device is closed.
func (f *Fabric) watch() {
	for {
		e, err := f.dev.ctx.Event()
		if err != nil {
			return
		}
		f.happened(e)
	}
}

// happened gives an event to whom it concerns. What says nothing about this
// endpoint's traffic is left alone: subnet managers may change.
func (f *Fabric) happened(e verbs.Event) {
	switch e.Type {
	case verbs.EventPortError, verbs.EventPortActive:
		if e.Port == f.dev.port.number {
			f.portIs(e.Type == verbs.EventPortActive)
		}
	case verbs.EventGIDChange, verbs.EventPKeyChange, verbs.EventLIDChange:
		if e.Port == f.dev.port.number {
			f.moved()
		}
	case verbs.EventQPFatal, verbs.EventQPRequest, verbs.EventQPAccess:
		err := fmt.Errorf("ib: queue pair %d of %s: %v", e.QPN, f.dev.ctx.Device(), e.Type)
		if e.QPN == f.tuple.Num {
			f.datagramsFail(err)
		} else if l := f.streams(); l != nil {
			if s := l.of(e.QPN); s != nil {
				s.Abort(err)
			}
		}
	case verbs.EventDeviceFatal, verbs.EventCQError, verbs.EventSRQError:
		err := fmt.Errorf("ib: %s: %v; see the kernel's log with: dmesg", f.dev.ctx.Device(), e.Type)
		f.failed.Store(true)
		f.breakAll(err)
	}
}

// lost says that the endpoint will never work again, also to those who only
// wait for what others send.
func (f *Fabric) lost(err error) {
	f.breaks(err)
	if w, ok := f.sink.(fabric.Watcher); ok && f.ending.Err() == nil {
		w.Broken(err)
	}
}

// breakAll fails all streams with err, and calls lost.
func (f *Fabric) breakAll(err error) {
	if l := f.streams(); l != nil {
		l.breaks(err)
	}
	f.lost(err)
}

// portIs notes that the port is up or down. Streams get over a while without it,
// since the device sends again.
func (f *Fabric) portIs(up bool) {
	h := &f.health
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case f.mute.Load(): // mend finds it
	case up:
		h.down = nil
		if h.timer != nil {
			h.timer.Stop()
		}
	case h.down == nil:
		err := fmt.Errorf("port %v went down: see ibstat %s", &f.dev.port, f.dev.ctx.Device())
		h.down = err
		h.mu.Unlock()
		spared := f.spared(fmt.Errorf("ib: %w", err))
		h.mu.Lock()
		if spared {
			return
		}
		h.timer = time.AfterFunc(f.cfg.PortGrace, func() {
			if f.down() != err {
				return
			}
			err := fmt.Errorf("ib: %w, and was not up again within %v; --fabric udp does without", err, f.cfg.PortGrace)
			f.breakAll(err)
		})
	}
}
