package lazy

import (
	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// sink takes what the fabric receives.
type sink struct{ t *Table }

func (s sink) Datagram(from fabric.Tuple, b []byte) {
	t := s.t
	e, body, err := t.cfg.Seal.Open(b)
	if err != nil || e.Src >= t.layout().Ranks() || t.isNear(e.Src) || e.Kind == helloKind {
		t.count(func(s *sums) { s[job.CountStrangers]++ })
		return
	}
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if t.stopped {
		return
	}
	f := t.remotePeer(e.Src)
	if peer.PacketKind(e.Kind) == peer.PacketReject {
		t.rejects++
	}
	t.step(f, peer.Event{
		Kind: peer.Packet, Packet: peer.PacketKind(e.Kind), Gen: e.Gen, Path: e.Path,
		SrcEpoch: e.SrcEpoch, DstEpoch: e.DstEpoch, Body: body, Tuple: from, Busy: f.busy(),
	})
}

func (s sink) Accepted(c fabric.Stream) {
	g := s.t.lobby.enter(c, s.t.expected)
	s.t.readers.Go(func() { s.t.accept(g) })
}

// Broken ends all pairs: the fabric will never work again.
func (s sink) Broken(err error) {
	t := s.t
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if t.stopped {
		return
	}
	if t.secondary != nil {
		t.firstDown(err)
		return
	}
	t.mu.Lock()
	t.broken = err
	t.mu.Unlock()
	for _, f := range t.remotePeers() {
		f.kill(err)
	}
	t.in.alarm(err)
}
