package ib

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
)

// Attributes of connected queue pairs. docs/dev/verbs.md describes how devices apply them.
const (
	ackTimeout = 18 // 4.096 us << 18: a packet is sent again after 1.07 s without acknowledgement
	// resends is the maximum number of resends. On Soft-RoCE, 7 means no limit, and a stream to a destroyed queue pair
	// would never fail (docs/dev/verbs.md).
	resends    = 6
	rnrResends = 7  // no limit: the peer posts receives again as soon as its process runs
	minRNR     = 12 // code for 0.64 ms until a peer without posted receives is tried again
	mostReads  = 16 // maximum number of pending RDMA reads
)

const (
	firstRepeat = 2 * time.Millisecond   // time until a CONNECT is sent again; doubled each time
	lastRepeat  = 250 * time.Millisecond // maximum time until a CONNECT is sent again
	offerLen    = 9                      // bytes of an offer: version:8 cookie:64
)

// callKey identifies a stream that a peer has requested by CONNECT.
type callKey struct {
	nonce uint64
	from  fabric.Tuple
}

// Offer starts the engine that streams need and returns the cookie that a peer has to pass to Dial.
func (f *Fabric) Offer() ([]byte, error) {
	l, err := f.startEngine()
	if err != nil {
		return nil, err
	}
	return binary.BigEndian.AppendUint64([]byte{controlVersion}, l.cookie), nil
}

// Dial opens a stream. It sends CONNECT datagrams until ACCEPT arrives, connects a queue pair, and sends the first
// message on it.
func (f *Fabric) Dial(ctx context.Context, to fabric.Tuple, offer []byte) (fabric.Stream, error) {
	if err := f.closedErr(); err != nil {
		return nil, err
	}
	if err := f.dev.at.apart(to); err != nil {
		return nil, err
	}
	if len(offer) != offerLen || offer[0] != controlVersion {
		return nil, fmt.Errorf("ib: an offer of %d bytes is none of this fabric", len(offer))
	}
	ctx, cancel := context.WithTimeout(ctx, f.cfg.DialTimeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("ib: dial %v: %w", to, err)
	}
	l, err := f.startEngine()
	if err != nil {
		return nil, err
	}
	e, err := l.take()
	if err != nil {
		return nil, fmt.Errorf("ib: dial %v: %w", to, err)
	}
	defer l.refill()
	s, err := f.call(ctx, l, e, to, binary.BigEndian.Uint64(offer[1:]))
	if err != nil {
		l.drop(e)
		if f.ending.Err() != nil {
			return nil, fabric.ErrClosed
		}
		return nil, fmt.Errorf("ib: dial %v: %w", to, err)
	}
	f.counters.dialled.Add(1)
	return s, nil
}

// call sends CONNECT until an answer arrives, connects the queue pair e, and returns the stream on it.
func (f *Fabric) call(ctx context.Context, l *engine, e *queuePair, to fabric.Tuple, cookie uint64) (*stream, error) {
	if err := f.learn(ctx, e, to); err != nil {
		return nil, err
	}
	ask := control{call: connect, cookie: cookie, nonce: rand.Uint64(), from: f.tuple, side: f.side(e)}
	answers := make(chan control, 1)
	f.mu.Lock()
	f.dials[ask.nonce] = answers
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.dials, ask.nonce)
		f.mu.Unlock()
	}()
	repeat := firstRepeat
	timer := time.NewTimer(repeat)
	defer timer.Stop()
	for {
		f.sendControl(to, ask)
		select {
		case answer := <-answers:
			if answer.call == refuse {
				return nil, errors.New("refused: the other side has no queue pair for it, or did not make the offer")
			}
			if err := l.connect(e, ask.side, answer); err != nil {
				ask.call = abandon
				f.sendControl(to, ask)
				return nil, err
			}
			s := l.add(e, ask.side, answer.side, nil)
			s.begin()
			return s, nil
		case <-timer.C:
			repeat = min(2*repeat, lastRepeat)
			timer.Reset(repeat)
		case <-ctx.Done():
			ask.call = abandon
			f.sendControl(to, ask)
			return nil, fmt.Errorf("no answer: %w", ctx.Err())
		case <-f.ending.Done():
			return nil, fabric.ErrClosed
		}
	}
}

// side returns the parameters of this end of a stream, which are sent to the peer.
func (f *Fabric) side(e *queuePair) side {
	return side{qpn: e.qp.Number(), psn: randomPSN(), window: streamWindow, tag: uint16(rand.Uint32()),
		mtu: f.dev.at.mtu, at: e.way.at}
}

// sendControl sends a control datagram. It ignores errors, because the dialler repeats its request.
func (f *Fabric) sendControl(to fabric.Tuple, c control) {
	var b [controlHead + 2*fabric.MaxTuple + controlSeal]byte
	sealed := f.seal(to, c.append(b[:0]))
	if _, err := f.post(to, sealed, len(sealed), controlMark); err == nil {
		f.counters.control.Add(1)
	}
}

// control handles a control datagram. It drops a datagram whose seal or format is wrong.
func (f *Fabric) control(b []byte) {
	body, ok := f.sealed(b)
	if !ok {
		f.counters.strangers.Add(1)
		return
	}
	c, ok := parseControl(body)
	if !ok {
		return
	}
	l := f.streams()
	f.mu.Lock()
	answers := f.dials[c.nonce]
	f.mu.Unlock()
	switch c.call {
	case connect:
		f.called(l, c)
	case accept, refuse:
		select {
		case answers <- c:
		default: // no Dial waits for the answer, or the answer is a repetition
		}
	case abandon:
		if l != nil {
			l.mu.Lock()
			s := l.calls[callKey{c.nonce, c.from}]
			l.mu.Unlock()
			if s != nil {
				s.orphan()
			}
		}
	}
}

// called handles a CONNECT. A repeated CONNECT gets the same answer as the first CONNECT.
func (f *Fabric) called(l *engine, c control) {
	if l == nil || l.cookie != c.cookie {
		f.sendControl(c.from, control{call: refuse, nonce: c.nonce, from: f.tuple})
		return
	}
	key := callKey{c.nonce, c.from}
	l.mu.Lock()
	s, known := l.calls[key]
	if !known {
		l.calls[key] = nil
	}
	l.mu.Unlock()
	switch {
	case s != nil:
		f.answer(s, c)
	case !known:
		f.loops.Go(func() { f.listen(l, key, c) }) // a goroutine, because making a queue pair may take long
	}
}

func (f *Fabric) answer(s *stream, c control) {
	f.sendControl(c.from, control{call: accept, cookie: c.cookie, nonce: c.nonce, side: s.mine, from: f.tuple})
}

// listen connects a queue pair to that of the dialler and answers with ACCEPT, or with REFUSE if that fails.
func (f *Fabric) listen(l *engine, key callKey, c control) {
	forget := func() {
		l.mu.Lock()
		delete(l.calls, key)
		l.mu.Unlock()
		f.sendControl(c.from, control{call: refuse, nonce: c.nonce, from: f.tuple})
	}
	e, err := l.take()
	if err != nil {
		forget()
		return
	}
	defer l.refill()
	ctx, cancel := context.WithTimeout(f.ending, f.cfg.DialTimeout)
	defer cancel()
	if err := f.learn(ctx, e, c.side.at); err != nil {
		forget()
		l.drop(e)
		return
	}
	mine := f.side(e)
	if err := l.connect(e, mine, c); err != nil {
		forget()
		l.drop(e)
		return
	}
	s := l.add(e, mine, c.side, &key)
	s.await(f.cfg.DialTimeout)
	if f.ending.Err() != nil { // leave may have run before add
		s.orphan()
		return
	}
	f.answer(s, c)
}

// connect moves a queue pair to the state ReadyToSend, connected to the queue pair that c describes.
func (l *engine) connect(e *queuePair, mine side, c control) error {
	at := &l.dev.at
	if err := at.apart(c.side.at); err != nil {
		return err
	}
	route := at.by(e.way, c.side.at)
	route.SL = e.sl
	limits := &l.dev.limits
	if err := e.qp.Modify(verbs.QPState{
		State:      verbs.ReadyToReceive,
		Route:      route,
		MTU:        min(mine.mtu, c.side.mtu),
		Peer:       c.side.qpn,
		ReceivePSN: c.side.psn,

		ReadsIn: uint8(min(mostReads, limits.MaxReadsIn)),
		MinRNR:  minRNR,
	}); err != nil {
		return err
	}
	return e.qp.Modify(verbs.QPState{
		State: verbs.ReadyToSend, SendPSN: mine.psn, Timeout: ackTimeout, Retry: resends, RNRRetry: rnrResends,
		ReadsOut: uint8(min(mostReads, limits.MaxReadsOut)),
	})
}

// accept passes a stream to the sink when its first message has arrived. It reports false if the endpoint is closed.
func (f *Fabric) accept(s *stream) (taken bool) {
	f.accepting.Lock()
	defer f.accepting.Unlock()
	if f.over {
		return false
	}
	f.counters.accepted.Add(1)
	f.sink.Accepted(s)
	return true
}

// learn sets the way and the service level of a queue pair to the peer at to. It may wait for the subnet manager.
func (f *Fabric) learn(ctx context.Context, e *queuePair, to fabric.Tuple) (err error) {
	at := &f.dev.at
	e.way, e.sl = at.way(to, f.turn.Add(1)-1), at.sl
	if f.levels != nil {
		e.sl, err = f.levels.wait(ctx, to)
	}
	return err
}
