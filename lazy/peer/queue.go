package peer

// message is a staged message, bundle or control message.
type message struct {
	body []byte
	kind uint8 // flagControl for a control message, flagBundle for a bundle, or 0
}

// queue holds the staged messages: those that have not been cut completely into segments, in the order of sending.
type queue struct {
	list []message
	head int // index in list of the first message; earlier ones have been sent
	cut  int // number of bytes of the first message that have been cut into segments
}

func (q *queue) len() int { return len(q.list) - q.head }

func (q *queue) push(m message) {
	if q.head > 0 && len(q.list) == cap(q.list) && q.head >= len(q.list)/2 {
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, m)
}

// pop removes the first message. If the queue is empty then, it releases a large list.
func (q *queue) pop() {
	q.list[q.head] = message{}
	q.head++
	q.cut = 0
	if q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
		if cap(q.list) > ring {
			q.list = nil
		}
	}
}

// cutOff removes the next segment of at most size bytes from the first message. flags are those of the segment, and
// whole is the length of the message in bytes.
func (q *queue) cutOff(size int) (payload []byte, flags uint8, whole int) {
	m := &q.list[q.head]
	whole = len(m.body)
	if q.cut == 0 {
		flags |= flagFirst
	}
	flags |= m.kind
	end := min(q.cut+size, whole)
	payload = m.body[q.cut:end]
	q.cut = end
	if end == whole {
		flags |= flagLast
		q.pop()
	}
	return payload, flags, whole
}

// loseBegun removes from the counts and from the queue each unacknowledged message of which a segment has been sent. It
// returns their number. The caller must release the window.
func (p *Peer) loseBegun() (lost int) {
	if w := p.win; w != nil {
		for seq := w.una; seq != w.next; seq++ {
			if s := w.slot(seq); s.flags&flagLast != 0 {
				p.unackedBytes -= s.cost
				lost++
			}
		}
	}
	if p.queue.cut > 0 {
		p.unackedBytes -= len(p.queue.list[p.queue.head].body) + messageCost
		p.queue.pop()
		lost++
	}
	p.pending -= lost
	return lost
}

// drop ends the connection or the handshake. It reports as lost the messages of which a segment has been sent, because
// they may or may not have arrived. The other staged messages are sent in the next generation.
func (p *Peer) drop(cause Cause) {
	if p.state == Resolving {
		return // there is no connection
	}
	open := p.win != nil
	lost := p.loseBegun()
	p.become(Idle)
	p.win = nil
	p.retry.stop()
	switch {
	case lost > 0:
		p.emitNews(Effect{Kind: Failed, Cause: cause, Lost: lost})
	case open:
		p.emitNews(Effect{Kind: Closed})
	}
}

// fail ends the connection and drops all messages. The next message asks for the address again.
func (p *Peer) fail(cause Cause) {
	lost := p.pending
	p.forget()
	p.emitNews(Effect{Kind: Failed, Cause: cause, Lost: lost})
}

// forget drops the connection, all messages and the address of the peer.
func (p *Peer) forget() {
	p.queue, p.unackedBytes, p.pending = queue{}, 0, 0
	p.win = nil
	p.warm, p.asked = false, false
	p.nowhere()
	p.retry.stop()
}
