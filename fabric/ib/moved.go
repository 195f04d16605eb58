package ib

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"ibrun/cgo/verbs"
)

// moved looks at what the endpoint's address rests on, since a table of the port has changed: LID,
// partition, GID. If some of it is not there any more, it is given time to come back, as a port
// that is down is: an interface that goes down and up loses its IPv6 addresses in between.
func (f *Fabric) moved() {
	if f.still() == nil || !f.moving.CompareAndSwap(false, true) {
		return
	}
	go func() {
		timer := time.NewTimer(f.cfg.PortGrace)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-f.ending.Done():
		}
		f.moving.Store(false)
		f.expire()
	}()
}

// expire is the end of the grace: what is not there now is lost.
func (f *Fabric) expire() {
	err := f.still()
	if err == nil || f.ending.Err() != nil {
		return
	}
	err = fmt.Errorf("ib: port %v: %w", &f.dev.port, err)
	if !f.spared(err) {
		f.breakAll(err)
	}
}

// still says why peers cannot reach the endpoint by the address that it has published, or nil. It
// takes in which GIDs the port has.
func (f *Fabric) still() error {
	if !f.dev.hold() {
		return nil // closed
	}
	defer f.dev.release()
	list, err := f.dev.still(f.cfg.GIDIndex >= 0)
	if s := f.dev.at.sources; err == nil && s != nil && s.set(list) {
		f.out.forget()
	}
	return err
}

// noHandle is what a datagram comes to that no address handle could be made for: it is lost if the
// cause is an address that may come back, whether its event has come yet or not. The caller holds
// the sender's lock.
func (f *Fabric) noHandle(err error) error {
	if _, gone := f.dev.still(f.cfg.GIDIndex >= 0); gone == nil {
		return err
	}
	go f.moved()
	return errFull
}

// still compares the port's tables with the address that was made of them. It returns the GIDs that
// packets can leave by.
func (v *device) still(chosen bool) ([]source, error) {
	at := &v.at
	p := found{device: v.port.device, number: v.port.number}
	var err error
	if p.port, err = v.ctx.Port(p.number); err != nil {
		return nil, err
	}
	v.readTables(&p, int(at.sgid))
	if at.sources != nil {
		gid := tupleGID(at.tuple)
		i := slices.IndexFunc(p.gids, func(g verbs.GID) bool {
			return g.Addr == gid && (g.Type == verbs.GIDRoCEv1) == (at.tuple.Path == 1)
		})
		if i < 0 {
			return nil, fmt.Errorf("its GID %v, by which peers reach this rank, is gone: give its interface the "+
				"address again (ip addr), or use --fabric udp", netip.AddrFrom16(gid).Unmap())
		}
		return p.sources(i, chosen), nil
	}
	switch {
	case p.port.State != verbs.PortActive: // it is looked after by its own events, and may have no LID for now
		return nil, nil
	case p.port.LID != at.lid || p.port.LMC < at.lmc:
		return nil, fmt.Errorf("it has LID %d (LMC %d) now, and peers know %d (%d): a subnet manager has numbered it "+
			"anew; see sminfo, and start the job again", p.port.LID, p.port.LMC, at.lid, at.lmc)
	case at.key != 0 && (int(at.pkey) >= len(p.pkeys) || p.pkeys[at.pkey] != at.key):
		return nil, fmt.Errorf("it is not in partition %#04x any more: see smpquery pkeys %d, and the subnet "+
			"manager's partitions.conf", at.key, at.lid)
	case at.global && (int(at.sgid) >= len(p.gids) || p.gids[at.sgid].Addr != at.tuple.Addr):
		return nil, fmt.Errorf("its GID %v at index %d is gone: see /sys/class/infiniband/%s/ports/%d/gids",
			netip.AddrFrom16(at.tuple.Addr), at.sgid, p.device, p.number)
	}
	return nil, nil
}

// forget makes the next datagram to each node find its way anew.
func (s *sender) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale = slices.DeleteFunc(s.stale, func(h *handle) bool { return h.used < s.done && h.Close() == nil })
	for _, h := range s.handles {
		s.stale = append(s.stale, h)
	}
	clear(s.handles)
}
