package lazy

import (
	"time"

	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// sink receives datagrams, streams and failures from a fabric.
type sink struct{ t *Table }

// Datagram passes a datagram to the Peer of its sender. It drops and counts a datagram that is not from another node of
// the job.
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

// Accepted authenticates a stream that another process has dialed, in a new goroutine.
func (s sink) Accepted(c fabric.Stream) {
	g := s.t.lobby.enter(c, s.t.expected)
	s.t.readers.Go(func() { s.t.accept(g) })
}

// accept authenticates the process that has dialed a stream, and passes the stream to the Peer that waits for it. It
// runs in a goroutine of its own.
func (t *Table) accept(g *guest) {
	s := g.stream
	e, body, err := t.receiveHello(s)
	t.lobby.leave(g)
	if err != nil || e.Src >= t.layout().Ranks() || t.isNear(e.Src) {
		t.count(func(s *sums) { s[job.CountStrangers]++ })
		s.Close()
		return
	}
	token := peer.Token(body)
	t.fmu.Lock()
	defer t.fmu.Unlock()
	f := t.remotePeer(e.Src)
	if !f.awaits(token) {
		s.Close()
		return
	}
	if t.sendHello(s, f.rank, token) != nil {
		s.Close() // lobby.evict or the peer has closed the stream; the dialer tries again or gives up
		return
	}
	_ = s.SetDeadline(time.Time{})
	f.gotStream(s, token)
}

// expected returns the number of peers that have an offer of this rank and may be about to dial.
func (t *Table) expected() (n int) {
	t.fmu.Lock()
	defer t.fmu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.fars {
		if f.peer.Offering() {
			n++
		}
	}
	return n
}

// Broken handles a final failure of the fabric. If there is a second network, the pairs move to it. Otherwise no rank
// on another node can be reached any more.
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

// A rank with two networks uses the second one while the first one is down (docs/dev/decisions/0023-second-network.md).

// Down handles a temporary failure of the first network. If there is a second network, Down moves all pairs to it and
// returns true.
func (s sink) Down(err error) (spared bool) {
	t := s.t
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if t.stopped || t.secondary == nil {
		return false
	}
	t.firstDown(err)
	return true
}

// Up records that the first network works again.
func (s sink) Up() {
	t := s.t
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if t.stopped || t.down == nil {
		return
	}
	t.mu.Lock()
	t.down = nil
	t.mu.Unlock()
	for _, f := range t.remotePeers() {
		t.step(f, peer.Event{Kind: peer.Recovered})
	}
	if t.cfg.Changed != nil {
		t.cfg.Changed(nil)
	}
}

// firstDown moves all pairs to the second network. The caller holds Table.fmu.
func (t *Table) firstDown(err error) {
	first := t.down == nil
	t.mu.Lock()
	t.down = err
	t.mu.Unlock()
	for _, f := range t.remotePeers() {
		t.step(f, peer.Event{Kind: peer.Down})
		f.leaveFirst(err)
	}
	if first && t.cfg.Changed != nil {
		t.cfg.Changed(err)
	}
}

// leaveFirst cancels the dial of a pair on the first network, and reports its stream to the Peer as lost if the stream
// retains messages.
func (f *remotePeer) leaveFirst(why error) {
	if s := f.stream; s != nil && s.kept != nil {
		f.t.step(f, peer.Event{Kind: peer.Lost, Token: s.token, Why: why, Kept: true})
	}
	if f.dialing != nil && !isSecond(f.dialToken) {
		f.dialing()
	}
}
