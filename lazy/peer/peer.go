// Package peer is one pair of ranks as one of them sees it: the handshake,
// the window over datagrams that may be lost, doubled or overtaken, and the
// close of a connection that rests. A Peer is a pure value: events and the
// time go in, effects come out. It opens no socket, reads no clock, starts
// nothing, locks nothing, and does not check seals: a packet that it is given
// comes from the peer.
//
// A Peer must live as long as its two ranks do, since it knows which
// generations have been used; at rest it is a few hundred bytes.
package peer

import (
	"cmp"
	"math"
	"time"

	"ibrun/fabric"
)

// Config is what a Peer knows at birth.
type Config struct {
	Epoch     uint16        // epoch of this rank, 1 or more
	Tuple     fabric.Tuple  // address of this rank
	Secondary fabric.Tuple  // address of this rank for peers that cannot use Tuple; zero: none
	Down      bool          // Tuple does not work at present
	MTU       int           // maximum size of a packet body in bytes, 512 or more
	Window    int           // receive window in segments, 1 to 64; 0: 64
	Stage     int           // maximum of accepted bytes that the peer has not acknowledged; 0: 256 KiB
	Inbox     int           // maximum of delivered bytes that the program has not received; 0: 1 MiB
	Hold      time.Duration // time on the second network until the first is tried again; 0: 10 s
	Seed      uint64        // seed of the random jitter of timers
	Floor     uint16        // lowest valid epoch of the peer; 0: all are valid
	Scratch   *Scratch      // shared by Peers that never run at the same time; nil: not shared
}

// Peer is the state of one pair. The zero value is not ready; see New.
type Peer struct {
	cfg   Config
	now   time.Duration
	armed time.Duration // the timer that is set; never: none
	seed  uint64

	state State
	warm  bool         // a connection is wished for without a message
	known bool         // to is an address of the peer
	asked bool         // a question to the agent has not been answered
	epoch uint16       // the peer's epoch; 0: not known
	gen   uint32       // last generation of this pair of epochs
	to    fabric.Tuple // where the peer is reached
	mtu   int          // bytes of body, the lower of both sides
	room  uint8        // the window the peer began with

	path         *path // nil: this rank has one network
	retry        retry
	fin          closing
	queue        queue
	unackedBytes int // bytes of accepted messages that the peer has not acknowledged
	pending      int // accepted messages that the peer has not acknowledged
	untaken      int // bytes of delivered messages that the program has not received
	win          *window

	counts  Counts
	scratch *Scratch
	trace   func(*row) // each row that was used; for tests
}

// closing is what the two sides of one generation know about its end.
type closing struct {
	attempt  uint32 // our last
	decided  uint32 // the peer's last that we decided
	granted  bool   // and how
	sent     uint64 // messages of ours that have gone into segments
	received uint64 // messages of the peer that were delivered
}

// Counts are totals since New.
type Counts struct {
	Malformed uint64 // packets that were ignored because they do not parse
	Doubled   uint64 // segments that were here already
	Resent    uint64 // segments that were sent again
	Repeated  uint64 // handshake packets that were sent again
	TimedOut  uint64 // times that the oldest segment was not acknowledged in time
}

// messageCost is what a message occupies of Stage besides its bytes.
const messageCost = 64

// New makes a Peer at rest.
func New(cfg Config) *Peer {
	cfg.MTU = min(max(cfg.MTU, leastMTU), math.MaxUint16)
	if cfg.Window <= 0 || cfg.Window > ring {
		cfg.Window = ring
	}
	cfg.Stage = cmp.Or(cfg.Stage, 256<<10)
	cfg.Inbox = cmp.Or(cfg.Inbox, 1<<20)
	cfg.Hold = cmp.Or(cfg.Hold, firstHold)
	p := &Peer{cfg: cfg, armed: never, seed: cfg.Seed, scratch: cfg.Scratch, epoch: cfg.Floor}
	if p.scratch == nil {
		p.scratch = &Scratch{}
	}
	p.retry.stop()
	if cfg.Secondary != (fabric.Tuple{}) {
		p.path = &path{down: cfg.Down}
		if cfg.Down {
			p.path.number, p.path.hold = 1, cfg.Hold
		}
	}
	return p
}

// State is where the pair stands.
func (p *Peer) State() State { return p.state }

// Epoch is the peer's, as far as it is known; 0: it is not.
func (p *Peer) Epoch() uint16 { return p.epoch }

// Address is where the peer is reached, as far as it is known: from Wait on.
func (p *Peer) Address() fabric.Tuple { return p.to }

// Unacked is how many messages were accepted and are neither acknowledged nor
// reported lost.
func (p *Peer) Unacked() int { return p.pending }

// Room returns the length in bytes of the longest message that may be sent now. If it is negative, no message
// may be sent.
func (p *Peer) Room() int { return p.cfg.Stage - p.unackedBytes - messageCost }

// Untaken is how many bytes were delivered and not reported as taken.
func (p *Peer) Untaken() int { return p.untaken }

// Packet is the length in bytes of the longest message that one packet carries.
func (p *Peer) Packet() int {
	if p.mtu == 0 {
		return p.cfg.MTU - segmentLen
	}
	return p.mtu - segmentLen
}

// Counts returns the totals.
func (p *Peer) Counts() Counts { return p.counts }

// Step takes one event at a time now, which never goes back, and returns what
// is to be done, in this order. The slice is valid until the next Step.
func (p *Peer) Step(now time.Duration, ev Event) []Effect {
	p.now = now
	clear(p.scratch.effects) // drops references to messages that the owner has processed
	p.scratch.effects, p.scratch.bytes = p.scratch.effects[:0], p.scratch.bytes[:0]
	held := p.unackedBytes
	switch ev.Kind {
	case Send, Control, Bundle:
		p.send(ev)
	case Warm:
		if p.state != Up {
			p.warm = true
		}
	case Resolved:
		p.resolved(ev)
	case Unresolved:
		if p.asked {
			p.asked = false
			p.apply(inMissing, &cue{cause: ev.Cause})
		}
	case Packet:
		p.arrived(ev)
	case Tick:
		p.tick()
	case Rest:
		p.rest()
	case Taken:
		p.taken(ev.N)
	case Flush:
		if p.state == Up && p.win.under() > 0 && p.win.hold.peers > 0 {
			p.acknowledge(flagAsk)
		}
	case Down:
		p.wentDown()
	case Recovered:
		if p.dual() {
			p.path.down = false
		}
	case SecondaryFound:
		p.secondFound(ev.Tuple)
	case Floor:
		if ev.Epoch > p.epoch {
			p.renewed(ev.Epoch)
		}
	}
	p.follow()
	if p.unackedBytes < held && held > p.cfg.Stage/2 {
		p.emit(Effect{Kind: Writable})
	}
	p.arm()
	effects := p.scratch.effects
	if ev.Kind == Tick && p.pending == 0 {
		// Release the memory that a burst has needed. The effects of this step still refer to it. A Tick follows the
		// last packet of a burst, because the timer is set for packets to repeat and to acknowledge.
		p.queue = queue{}
		p.scratch.effects, p.scratch.bytes = nil, nil
	}
	return effects
}

// follow does what follows from the state rather than from the event.
func (p *Peer) follow() {
	if p.state == Idle && (p.warm || p.pending > 0) {
		p.apply(p.want(), &cue{})
	}
	if p.win == nil {
		return
	}
	if p.state == Up {
		p.pump()
	}
	if p.win.ackNow {
		p.acknowledge(0)
	}
}

func (p *Peer) want() input {
	if p.known {
		return inWantKnown
	}
	return inWant
}

func (p *Peer) send(ev Event) {
	m := message{body: ev.Msg}
	switch ev.Kind {
	case Control:
		m.kind = flagControl
	case Bundle:
		m.kind = flagBundle
	}
	p.queue.push(m)
	p.unackedBytes += len(ev.Msg) + messageCost
	p.pending++
	if p.state != Idle { // there, follow does it
		p.apply(p.want(), &cue{})
	}
}

func (p *Peer) rest() {
	if p.pending > 0 {
		return // a message of the peer may be half-way: it may have died there, and FIN finds out
	}
	if p.state == Up && p.win.owed > 0 {
		p.acknowledge(0) // or the peer would have to refuse
	}
	p.apply(inRest, &cue{})
}

func (p *Peer) taken(n int) {
	p.untaken -= min(n, p.untaken)
	if p.win != nil && p.win.shut && p.untaken <= p.cfg.Inbox/2 {
		p.win.shut = false
		p.win.ackNow = true
	}
}

func (p *Peer) emit(e Effect) { p.scratch.effects = append(p.scratch.effects, e) }

// transmit builds a body in the scratch and sends it to the peer.
func (p *Peer) transmit(k *packet) {
	p.wantSecond()
	p.transmitTo(p.to, k)
}

// transmitTo encodes the body of k in the scratch buffer and sends the packet to an address.
func (p *Peer) transmitTo(to fabric.Tuple, k *packet) {
	p.emit(Effect{
		Kind: Transmit, Packet: k.kind, Gen: p.gen, DstEpoch: p.epoch, Path: p.Moves(), To: to, Body: p.body(k),
	})
}

// body appends to the scratch. If that has to move, earlier bodies keep the
// memory that they are in.
func (p *Peer) body(k *packet) []byte {
	from := len(p.scratch.bytes)
	p.scratch.bytes = k.append(p.scratch.bytes)
	return p.scratch.bytes[from:len(p.scratch.bytes):len(p.scratch.bytes)]
}
