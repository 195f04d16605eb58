package peer

import "fmt"

// Check returns an error that names the first invariant of Peer or of upgrade that does not hold. Tests call it after
// each Step.
func (p *Peer) Check() error {
	open, awaited, named := p.isOpen(), p.retry.at != never, p.token != Token{}
	for i, holds := range [...]bool{
		(p.win != nil) == open,
		p.known || p.state < Wait,
		p.state != Idle || p.pending == 0 && !p.warm,
		p.state == Resolving || awaited == (p.state != Idle && (p.state != Up || p.pending > 0)),
		p.accounts(),
		!p.dual() || !p.path.down || p.Secondary(),
		p.at[stream].region() == stream && p.at[outgoing].region() == outgoing && p.at[incoming].region() == incoming,
		named == (p.at[stream] > wanted) || p.at[stream] == offered && p.offer == nil,
		p.at[stream] > accepted || !p.Sending() && !p.Reading(),
		p.at[stream] > barred || (p.at[stream] == barred) == (p.failures >= attempts),
		!p.leaves || !p.peerLeaves || p.at[stream] >= left,
	} {
		if !holds {
			return fmt.Errorf("invariant %d does not hold in %v, %v", i+1, p.state, p.at)
		}
	}
	return nil
}

// accounts reports whether invariant 5 holds.
func (p *Peer) accounts() bool {
	messages, bytes := p.queue.len(), 0
	for _, m := range p.queue.list[p.queue.head:] {
		bytes += len(m.body) + messageCost
	}
	if w := p.win; w != nil {
		for seq := w.una; seq != w.next; seq++ {
			if s := w.slot(seq); s.flags&flagLast != 0 {
				messages++
				bytes += s.cost
			}
		}
	}
	return messages == p.pending && bytes == p.unackedBytes
}
