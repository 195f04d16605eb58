package peer

import "bytes"

// take handles a SEGMENT or an ACK.
func (p *Peer) take(c *cue) {
	p.takeAck(&c.packet)
	if c.kind == PacketSegment {
		p.receive(&c.packet)
	} else if c.flags&flagAsk != 0 {
		p.answer(c.from)
	}
}

// receive stores a segment and delivers the messages that are complete and in order. A segment that is not the next one
// is acknowledged at once, so that the peer learns of the gap or of the duplicate.
func (p *Peer) receive(k *packet) {
	w := p.win
	ahead := int32(k.seq - w.want)
	w.hold.arrived(p.now, ahead == 0)
	if ahead < 0 || ahead > 0 && ahead < ring && w.have>>(ahead-1)&1 != 0 {
		p.counts.Doubled++
		w.answerNow()
		return
	}
	if ahead >= ring {
		w.answerNow() // the segment is beyond every receive window that this rank has advertised
		return
	}
	if ahead > 0 {
		if w.in == nil {
			w.in = new([ring]piece)
		}
		w.have |= 1 << (ahead - 1)
		w.in[k.seq%ring] = piece{bytes.Clone(k.payload), k.flags}
		w.answerNow()
		return
	}
	if w.have != 0 {
		w.answerNow()
	}
	p.assemble(k.payload, k.flags, false)
	for more := true; more; {
		more = w.have&1 != 0
		w.have >>= 1
		w.want++
		if more {
			next := &w.in[w.want%ring]
			p.assemble(next.payload, next.flags, true)
			*next = piece{}
		}
	}
	if w.have == 0 {
		w.in = nil
	}
	if w.owed++; w.owed >= w.most {
		w.ackNow = true
		w.most = min(w.most+1, manyOwed)
	} else if w.ackAt == never {
		w.ackAt = p.now + max(w.ackWait, w.hold.long)
	}
}

// Values of window.most. If many segments arrive in order, one ACK is sent for each manyOwed of them, which is much
// less than a window. window.most starts at fewOwed. It returns to fewOwed after a segment out of order and after a
// pause, because a sender that has lost a segment sends few segments at a time.
const (
	fewOwed  = 2
	manyOwed = 8
)

// answerNow makes the Peer send an acknowledgement in this Step, and the next one after fewOwed segments.
func (w *window) answerNow() { w.ackNow, w.most = true, fewOwed }

// assemble adds the next segment in order to its message, and delivers the message if it is complete. If owned is
// false, assemble copies payload, whose memory belongs to the caller of Step.
func (p *Peer) assemble(payload []byte, flags uint8, owned bool) {
	w := p.win
	switch {
	case flags&flagFirst == 0 && !w.open:
		p.counts.Malformed++
		return
	case flags&flagFirst == 0:
		w.partial = append(w.partial, payload...)
	case owned:
		w.partial, w.open = payload, true
	default:
		w.partial, w.open = bytes.Clone(payload), true
	}
	if flags&flagLast == 0 {
		return
	}
	msg := w.partial
	w.partial, w.open = nil, false
	p.fin.received++
	switch flags & kindFlags {
	case flagControl:
		n := news{control: msg}
		if p.trace != nil {
			p.trace(n)
		}
		p.tell(n)
	case flagBundle:
		p.untaken += bundledBytes(msg)
		p.emit(Effect{Kind: DeliverBundle, Msg: msg})
	default:
		p.untaken += len(msg)
		p.emit(Effect{Kind: Deliver, Msg: msg})
	}
}

// halfway reports whether a part of a message has arrived, or a segment out of order.
func (w *window) halfway() bool { return w != nil && (w.open || w.have != 0) }
