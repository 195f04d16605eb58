package peer

import "bytes"

// take takes what a SEGMENT or ACK brings.
func (p *Peer) take(c *cue) {
	p.takeAck(&c.packet)
	if c.kind == PacketSegment {
		p.receive(&c.packet)
	} else if c.flags&flagAsk != 0 {
		p.answer(c.from)
	}
}

// receive puts a segment in its place and delivers what is in order. Whatever
// is not simply the next is acknowledged at once: the peer learns from it.
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
		w.answerNow() // over every limit that we gave
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

// In a flood of segments an ACK is due for manyOwed of them, which is much less than a window. It
// begins with fewOwed, and does so again when one was not simply the next or the peer has paused: a
// sender that has lost something sends few at a time.
const (
	fewOwed  = 2
	manyOwed = 8
)

// answerNow acknowledges at once, and all that follows soon.
func (w *window) answerNow() { w.ackNow, w.most = true, fewOwed }

// assemble adds the next segment in order to its message. owned says that the
// payload is ours to give away.
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

// halfway reports whether part of a message is here and not delivered.
func (w *window) halfway() bool { return w != nil && (w.open || w.have != 0) }
