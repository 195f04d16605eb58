package lazy

import (
	"time"

	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// moveAt is the maximum number of accepted bytes that a peer has not acknowledged, including 64 for each message. A
// message that would exceed it makes the pair open a stream.
const moveAt = 64 << 10

// remotePeer returns the peer with the given slot. The first call for a peer creates it. remotePeer does not call step,
// because the caller does not have to hold Table.fmu.
func (t *Table) remotePeer(rank uint32) *remotePeer {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.fars[rank]
	if f == nil {
		f = &remotePeer{t: t, rank: rank, turn: make(chan struct{}, 1), news: make(chan struct{}, 1)}
		cfg := peer.Config{
			Epoch: t.cfg.Epoch, Tuple: t.fabric.Tuple(), MTU: t.mtu(),
			Stage: moveAt, Seed: uint64(t.cfg.Rank)<<32 | uint64(rank), Scratch: &t.scratch, Floor: t.floor(rank),
			Hold: t.cfg.Hold, Dials: t.cfg.Rank < rank, Always: t.cfg.Streams, Worth: t.cfg.Worth,
		}
		if t.secondary != nil {
			cfg.Secondary = t.secondary.Tuple()
		}
		cfg.Down = t.down != nil
		f.peer = peer.New(cfg)
		f.timer = time.AfterFunc(time.Hour, f.tick)
		f.timer.Stop()
		f.suspicion.timer = time.AfterFunc(time.Hour, f.suspect)
		f.suspicion.timer.Stop()
		if t.broken != nil {
			f.dead = t.about(rank, t.broken)
			t.in.lose(rank, f.dead)
		}
		t.fars[rank] = f
		t.in.mu.Lock()
		t.in.source(rank).taken = f.taken
		t.in.mu.Unlock()
		t.count(func(s *sums) { s[job.CountPeers]++ })
	}
	return f
}

// end stops the timers of a peer and ends its stream. It is called after the table has been stopped.
func (f *remotePeer) end() {
	f.timer.Stop()
	if f.bundle.timer != nil {
		f.bundle.timer.Stop()
	}
	f.suspicion.timer.Stop()
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	f.close(nil)
	f.notify()
}

func (f *remotePeer) tick() {
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	if !f.t.stopped && !f.departed {
		f.t.step(f, peer.Event{Kind: peer.Tick})
		if f.peer.Unacked() == 0 {
			f.t.out.b = nil // the Peer also releases the memory of a burst then
		}
	}
}

// suspect asks the agent whether a peer that a receiver waits for still runs. If it does not, Answered wakes the
// receiver.
func (f *remotePeer) suspect() {
	if !f.suspicion.due(time.Since(f.t.began)) {
		return
	}
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	if !f.t.stopped && !f.departed {
		f.t.ask(waitingRemote{remotePeer: f, fresh: true})
	}
}

// taken tells the Peer that the program has received a message of that many bytes. Then the other rank may send more
// datagrams. While the pair receives by a stream, taken does nothing.
func (f *remotePeer) taken(bytes int) {
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	if !f.peer.Reading() && !f.t.stopped && !f.departed {
		f.t.step(f, peer.Event{Kind: peer.Taken, N: bytes})
	}
}

func (f *remotePeer) warm() {
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	if !f.t.stopped {
		f.t.step(f, peer.Event{Kind: peer.Warm})
	}
}
