package lazy

import (
	"ibrun/lazy/peer"
)

// A rank with two networks goes on by the second one while the first does not work
// (docs/dev/decisions/0023-second-network.md).

// firstDown takes all pairs to the second network. The caller holds the lock of remote peers.
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

// leaveFirst ends what a pair has under way on the first network.
func (f *remotePeer) leaveFirst(why error) {
	if s := f.stream; s != nil && s.kept != nil {
		f.t.step(f, peer.Event{Kind: peer.Lost, Token: s.token, Why: why, Kept: true})
	}
	if f.dialing != nil && !isSecond(f.dialToken) {
		f.dialing()
	}
}
