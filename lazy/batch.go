package lazy

import (
	"errors"

	"ibrun/fabric"
	"ibrun/lazy/peer"
)

// transmit seals a packet and adds it to the batch that post sends. If the packet does not fit the batch, transmit
// calls post first.
func (t *Table) transmit(f *remotePeer, e *peer.Effect) {
	o := &t.out
	size := len(e.Body) + fabric.Overhead
	if o.count > 0 && (o.closed || e.To != o.to || f != o.remote || size > o.size || o.count == fabric.MaxBatch ||
		len(o.b)+size > fabric.MaxBatchBytes) {
		t.post()
	}
	if o.count == 0 {
		o.b, o.remote, o.to, o.size = o.b[:0], f, e.To, size
	}
	o.count++
	o.closed = size < o.size
	o.b = t.cfg.Seal.Append(o.b, fabric.Envelope{Kind: uint8(e.Packet), Dst: f.rank, DstEpoch: e.DstEpoch,
		Gen: e.Gen, Path: e.Path}, e.Body)
	t.datagrams++
	if e.Packet == peer.PacketState {
		t.handshakes += uint64(size)
	}
}

// post sends the batch of packets that transmit has sealed.
func (t *Table) post() {
	o := &t.out
	if o.count == 0 {
		return
	}
	f, way := o.remote, t.by(o.to)
	var err error
	if o.count == 1 {
		err = way.Post(o.to, o.b)
	} else {
		err = way.PostAll(o.to, o.b, o.size)
	}
	o.count, o.closed, o.remote = 0, false, nil
	lost := t.down != nil && way == t.fabric
	if err != nil && !lost && !errors.Is(err, fabric.ErrClosed) && f.dead == nil {
		f.kill(err)
		t.in.alarm(f.dead)
	}
}
