package ib

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
)

const (
	// A rank without peers has these, and more with the first one.
	fewSends    = 8
	fewReceives = 16
	manySends   = 128
	// pollBatch is the number of completions taken in one crossing into C.
	pollBatch = 32
	// inlineBytes is how much a work request may carry in itself.
	inlineBytes = 64
	// sendBatch is the number of datagrams that go to the device with one ring of its doorbell.
	sendBatch = 16
)

// openDatagrams makes the queue pair that the I-tuple names.
func (f *Fabric) openDatagrams() (err error) {
	out, in, d := &f.out, &f.in, f.dev
	out.handles, out.port = map[fabric.Tuple]*handle{}, d.port.String()
	if in.channel, err = d.ctx.NewChannel(); err != nil {
		return err
	}
	if in.cq, err = d.ctx.NewCQ(f.cfg.Receives+fewReceives, in.channel, 0); err != nil {
		return err
	}
	if out.cq, err = d.ctx.NewCQ(manySends+1, nil, 0); err != nil {
		return err
	}
	if out.qp, err = newQP(d.pd, verbs.QPConfig{
		Type: verbs.UD, Send: out.cq, Receive: in.cq, MaxSend: manySends, MaxReceive: f.cfg.Receives + fewReceives,
		MaxInline: inlineBytes,
	}); err != nil {
		return err
	}
	out.inline = out.qp.Granted().MaxInline
	if out.slots, err = f.register(fewSends*f.mtu, verbs.LocalWrite); err != nil {
		return err
	}
	out.size = fewSends
	return f.ready(func() error { return f.addReceives(fewReceives) })
}

// ready moves the queue pair for datagrams from Reset to ReadyToSend. It calls post in state Init, to post receives.
func (f *Fabric) ready(post func() error) error {
	qp, at := f.out.qp, &f.dev.at
	err := qp.Modify(verbs.QPState{State: verbs.Init, Port: at.port, PKeyIndex: at.pkey, QKey: f.cfg.QKey})
	if err != nil {
		return err
	}
	if err := post(); err != nil {
		return err
	}
	if err := qp.Modify(verbs.QPState{State: verbs.ReadyToReceive}); err != nil {
		return err
	}
	return qp.Modify(verbs.QPState{State: verbs.ReadyToSend, SendPSN: randomPSN()})
}

func (f *Fabric) addReceives(slots int) error {
	batch, err := f.in.rings.add(f, slots, slotSize)
	if err == nil {
		_, err = f.out.qp.PostReceive(batch)
	}
	return err
}

// Post sends one datagram. What the device cannot take now is lost.
func (f *Fabric) Post(to fabric.Tuple, b []byte) error { return f.PostAll(to, b, len(b)) }

// PostAll implements fabric.Fabric. It passes several work requests to the device at once.
func (f *Fabric) PostAll(to fabric.Tuple, b []byte, size int) error {
	for len(b) > 0 {
		taken, err := f.post(to, b, size, 0)
		if errors.Is(err, errFull) {
			f.counters.lost.Add(uint64(datagrams(b, size)))
			return nil
		}
		if err != nil {
			return err
		}
		bytes := min(taken*size, len(b))
		f.counters.sent.Add(uint64(taken))
		f.counters.sentBytes.Add(uint64(bytes))
		b = b[bytes:]
	}
	return nil
}

// datagrams is how many of a size there are in b; the last may have less.
func datagrams(b []byte, size int) int { return (len(b) + size - 1) / size }

// post sends the first of some datagrams and says how many, one at least if there is no error. They
// have size bytes each, but the last may have less. Those with a mark are the fabric's own.
func (f *Fabric) post(to fabric.Tuple, b []byte, size int, mark uint32) (taken int, err error) {
	out := &f.out
	out.mu.Lock()
	defer out.mu.Unlock()
	switch {
	case out.closed || f.ending.Err() != nil:
		return 0, fabric.ErrClosed
	case size > f.mtu:
		return 0, fabric.ErrTooLong
	case f.mute.Load():
		return 0, errFull
	case out.broken != nil:
		return 0, out.broken
	}
	if !out.grown {
		f.growSends()
	}
	want := min(datagrams(b, size), sendBatch)
	if out.free() < want {
		if out.reclaim(); out.broken != nil {
			go f.datagramsFail(out.broken) // whoever posts holds locks of the owner
			return 0, errFull
		}
	}
	if want = min(want, out.free()); want == 0 {
		return 0, errFull
	}
	ah, err := f.handle(to)
	if err != nil {
		return 0, err
	}
	batch := out.batch[:want]
	for i := range batch {
		m := b[i*size : min((i+1)*size, len(b))]
		number := out.posted + uint64(i)
		offset := int(number%uint64(out.size)) * f.mtu
		copy(out.slots.Bytes()[offset:], m)
		s := verbs.Send{
			ID: number, Addr: out.slots.Addr() + uint64(offset), Length: uint32(len(m)), LKey: out.slots.LKey(),
			AH: ah.Ref(), QPN: to.Num, QKey: f.cfg.QKey, Op: verbs.OpSend,
		}
		if len(m) <= out.inline {
			s.Flags |= verbs.Inline
		}
		if number%uint64(out.size/4) == 0 {
			s.Flags |= verbs.Signaled
		}
		if mark != 0 {
			s.Op, s.Imm = verbs.OpSendImm, mark
		}
		batch[i] = s
	}
	if taken, _ = out.qp.PostSend(batch); taken == 0 {
		return 0, errFull // as far as one can know, for now
	}
	out.posted += uint64(taken)
	ah.used = out.posted - 1
	return taken, nil
}

// free is the number of slots that are not under way.
func (s *sender) free() int { return s.size - int(s.posted-s.done) }

// reclaim looks for sends that are through. It does not wait, but lets the
// device work.
func (s *sender) reclaim() {
	n, _ := s.cq.Poll(s.ends[:])
	for _, c := range s.ends[:max(n, 0)] {
		if s.done = max(s.done, c.ID+1); c.Status != verbs.Success && c.Status != verbs.Flushed && s.broken == nil {
			s.broken = fmt.Errorf("ib: port %s: datagrams cannot be sent: %v", s.port, c.Status)
		}
	}
}

// growSends takes more slots at the first peer. The memory of the old ones stays,
// since the device may still read it.
func (f *Fabric) growSends() {
	out := &f.out
	out.grown = true
	mr, err := f.register(manySends*f.mtu, verbs.LocalWrite)
	if err != nil {
		return // it works with few, too
	}
	out.old, out.slots, out.size = out.slots, mr, manySends
}

// handle is the address handle of a tuple's node.
func (f *Fabric) handle(to fabric.Tuple) (*handle, error) {
	out := &f.out
	to.Num = 0
	if h := out.handles[to]; h != nil {
		return h, nil
	}
	route, err := f.route(to)
	if err != nil {
		return nil, err
	}
	if len(out.handles) >= mostHandles && !out.dropHandle() {
		return nil, errFull
	}
	ah, err := f.dev.pd.NewAH(route)
	if err != nil {
		return nil, f.noHandle(err)
	}
	out.handles[to] = &handle{AH: ah}
	return out.handles[to], nil
}

// dropHandle frees the handle that was not used for longest, unless the device may
// still need it: a handle must outlive its sends.
func (s *sender) dropHandle() bool {
	var oldest fabric.Tuple
	used := uint64(math.MaxUint64)
	for to, h := range s.handles {
		if h.used < used {
			oldest, used = to, h.used
		}
	}
	if used >= s.done {
		return false
	}
	_ = s.handles[oldest].Close()
	delete(s.handles, oldest)
	return true
}

// stop ends receive.
func (r *receiver) stop() {
	if r.channel != nil {
		_ = r.channel.SetDeadline(past)
	}
}

// receive is the goroutine that calls the sink with datagrams.
func (f *Fabric) receive() {
	cookies := make([]uint64, 1)
	grown := false
	for f.ending.Err() == nil {
		polls := f.cfg.Spin && !f.streaming.Load() // one goroutine polls at a time, as a rank has one CPU
		n, err := f.take(polls, &grown)
		if err != nil {
			f.breaks(err)
			return
		}
		if n == 0 {
			if polls {
				runtime.Gosched()
			} else if _, err := f.in.channel.Wait(cookies, f.keeping(false)); err != nil &&
				!errors.Is(err, os.ErrDeadlineExceeded) {
				f.breaks(err)
				return
			}
		}
	}
}

// take takes one batch of what has arrived, and says how much that was. After none, the next one
// makes an event, unless the caller polls.
func (f *Fabric) take(polls bool, grown *bool) (int, error) {
	f.in.mu.Lock()
	defer f.in.mu.Unlock()
	n, err := f.in.cq.Poll(f.in.ends[:])
	if n == 0 && err == nil && !polls {
		n, err = f.in.cq.ArmPoll(f.in.ends[:])
	}
	if n == 0 || err != nil {
		return n, err
	}
	f.deliver(f.in.ends[:n])
	if !*grown {
		*grown = true
		_ = f.addReceives(f.cfg.Receives) // it works with few, too
	}
	return n, nil
}

// deliver hands datagrams on and posts their slots again.
func (f *Fabric) deliver(ends []verbs.Completion) {
	again := f.in.again[:0]
	for i := range ends {
		c := &ends[i]
		slot := int(c.ID)
		r := f.in.rings.of(slot)
		if c.Status == verbs.Success && c.Length >= verbs.GRHSize && f.ending.Err() == nil {
			b := r.bytes(slot)[:c.Length]
			from := f.dev.at.source(c, b)
			if body := b[verbs.GRHSize:]; c.Flags&verbs.HasImm != 0 && c.Imm == controlMark {
				f.control(body)
			} else {
				f.sink.Datagram(from, body)
			}
		}
		if c.Status == verbs.Flushed {
			continue // the queue pair is in error, and takes nothing. Whoever put it there says why
		}
		if c.Status != verbs.Success {
			go f.datagramsFail(fmt.Errorf("ib: port %s: datagrams cannot be received: %v", f.out.port, c.Status))
		}
		again = append(again, r.request(slot))
	}
	_, _ = f.out.qp.PostReceive(again)
}

// breaks makes Post say why nothing can be sent any more.
func (f *Fabric) breaks(err error) {
	f.out.mu.Lock()
	defer f.out.mu.Unlock()
	if f.out.broken == nil {
		f.out.broken = err
	}
}

// closeDatagrams frees all that openDatagrams made, as far as it came.
func (f *Fabric) closeDatagrams() (err error) {
	out, in := &f.out, &f.in
	out.mu.Lock()
	defer out.mu.Unlock()
	out.closed = true
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	if out.qp != nil {
		keep(out.qp.Close())
	}
	for _, ah := range out.handles {
		keep(ah.Close())
	}
	for _, ah := range out.stale {
		keep(ah.Close())
	}
	for _, r := range in.rings {
		f.unregister(r.mr)
	}
	f.unregister(out.slots)
	f.unregister(out.old)
	for _, q := range []*verbs.CQ{in.cq, out.cq} {
		if q != nil {
			keep(q.Close())
		}
	}
	if in.channel != nil {
		keep(in.channel.Close())
	}
	return err
}

// route is the way to a node for datagrams, with its service level.
func (f *Fabric) route(to fabric.Tuple) (verbs.Route, error) {
	r, err := f.dev.at.route(to)
	if err == nil && f.levels != nil {
		r.SL, err = f.levels.now(to)
	}
	return r, err
}

// seal adds the seal for a receiver.
func (f *Fabric) seal(to fabric.Tuple, b []byte) []byte {
	h := hmac.New(sha256.New, f.cfg.Key[:])
	h.Write(to.Append(nil))
	h.Write(b)
	return append(b, h.Sum(nil)[:controlSeal]...)
}

// sealed takes the seal off what has come to this endpoint.
func (f *Fabric) sealed(b []byte) (body []byte, ok bool) {
	n := len(b) - controlSeal
	if n < controlHead {
		return nil, false
	}
	return b[:n], hmac.Equal(f.seal(f.tuple, append([]byte(nil), b[:n]...))[n:], b[n:])
}
