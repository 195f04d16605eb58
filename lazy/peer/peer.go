// Package peer implements the protocol of a pair of ranks, as one of them runs it: the handshake, the window over
// datagrams that may be lost, duplicated or reordered, the close of an idle connection, and the upgrade of the pair
// from datagrams to a stream and back. Step takes an event and the time, and returns effects. The owner of a Peer calls
// Step and performs these effects. A Peer opens no socket, reads no clock, starts no goroutine and takes no lock. It
// does not authenticate packets: the owner passes only packets that it has authenticated as sent by the peer.
//
// A Peer consists of two state machines, each with its own table: the datagram connection, and the upgrade to a stream.
// Step passes each event to one of them. Then it passes to the upgrade the changes of the connection and the control
// messages that have arrived.
//
// A Peer must live as long as its two ranks do, because it knows which generations have been used. A generation is a
// number that identifies one connection of the pair. An idle Peer takes a few hundred bytes.
package peer

import (
	"cmp"
	"math"
	"time"

	"ibrun/fabric"
)

// Config contains the parameters of a Peer.
type Config struct {
	Epoch     uint16        // epoch of this rank, 1 or more
	Tuple     fabric.Tuple  // address of this rank
	Secondary fabric.Tuple  // Ethernet address of this rank on its second network; zero if it has one network
	Down      bool          // the first network, which has the address Tuple, does not work at present
	MTU       int           // maximum size in bytes of a packet body that this rank receives, 512 or more
	Window    int           // receive window in segments, 1 to 64; 0 means 64
	Stage     int           // maximum number of accepted bytes that the peer has not acknowledged; 0 means 256 KiB
	Inbox     int           // delivered bytes without Taken above which the receive window is 0; 0 means 1 MiB
	Hold      time.Duration // time on the second network before the first one is probed; 0 means 10 s
	Seed      uint64        // seed of the random jitter of timers
	Floor     uint16        // lowest valid epoch of the peer; 0 means any
	Scratch   *Scratch      // shared by Peers that never run at the same time; nil means a private one

	Dials  bool  // this rank has the lower number: it dials streams, and the peer makes the offers
	Always bool  // every message uses a stream if one can be opened
	Worth  Worth // amount of data that moves the pair to a stream
}

// Peer is the state of one pair of ranks, at one of them. New returns a Peer that is ready for use. After each Step,
// these invariants and those of upgrade hold. A number in the comment of a field refers to an invariant.
//
//  1. There is a window exactly while the connection is open: in Up and Closing.
//  2. The address of the peer is known in Wait and all later states.
//  3. In Idle no message is staged, and no connection is wanted.
//  4. The timer retry is set in Wait, Half and Closing, in Up exactly if a message is not acknowledged, and never in
//     Idle.
//  5. The unacknowledged messages are those in the queue and those whose last segment is in the window. unackedBytes is
//     the sum of their costs.
//  6. While the first network of this rank is down, the number of the path is odd: the pair uses the second network.
type Peer struct {
	upgrade

	cfg   Config
	now   time.Duration
	armed time.Duration // time for which the timer is set, or never
	seed  uint64

	state State
	warm  bool         // a connection is wanted although no message is staged; invariant 3
	known bool         // to is an address of the peer; invariant 2
	asked bool         // the agent has not answered the last question about the peer
	epoch uint16       // the peer's epoch, or 0 if it is not known
	gen   uint32       // last generation of the pair with the current epochs; 0 before the first one
	to    fabric.Tuple // address of the peer
	mtu   int          // maximum size in bytes of a packet body for both ranks; 0 until the peer has sent its MTU
	room  uint8        // initial window of the peer, in segments

	path         *path // network in use; nil if this rank has one network; invariant 6
	retry        retry // timer of the next resend; invariant 4
	fin          closing
	queue        queue   // messages that have not been cut completely into segments
	unackedBytes int     // length of the unacknowledged messages plus messageCost for each; invariant 5
	pending      int     // number of accepted messages that the peer has not acknowledged; invariant 5
	untaken      int     // bytes of delivered messages that the owner has not reported with Taken
	win          *window // nil unless the connection is open; invariant 1

	counts  Counts
	scratch *Scratch
	trace   func(any) // in tests, called with each row that is applied and with each received control message
}

// closing is the state of the FIN exchange that closes the connection. All numbers count from the start of the current
// generation.
type closing struct {
	attempt  uint32 // number of the last FIN of this rank; resent FINs keep their number
	decided  uint32 // number of the last FIN of the peer that this rank has granted or refused
	granted  bool   // this rank has granted that FIN, so the connection closes
	sent     uint64 // messages of this rank whose last segment has been sent
	received uint64 // messages of the peer that have arrived completely, including control messages
}

// Counts contains totals since New.
type Counts struct {
	Malformed uint64 // malformed packets and segments, which were ignored
	Doubled   uint64 // segments that were received more than once
	Resent    uint64 // segments that were sent again
	Repeated  uint64 // handshake packets that were sent again
	TimedOut  uint64 // times that the oldest segment was not acknowledged in time
}

// messageCost is the number of bytes by which a message counts toward Config.Stage in addition to its length.
const messageCost = 64

// New returns a Peer in the state Idle.
func New(cfg Config) *Peer {
	cfg.MTU = min(max(cfg.MTU, leastMTU), math.MaxUint16)
	if cfg.Window <= 0 || cfg.Window > ring {
		cfg.Window = ring
	}
	cfg.Stage = cmp.Or(cfg.Stage, 256<<10)
	cfg.Inbox = cmp.Or(cfg.Inbox, 1<<20)
	cfg.Hold = cmp.Or(cfg.Hold, firstHold)
	cfg.Worth.Packet = cmp.Or(cfg.Worth.Packet, cfg.MTU)
	p := &Peer{cfg: cfg, armed: never, seed: cfg.Seed, scratch: cfg.Scratch, epoch: cfg.Floor}
	if p.scratch == nil {
		p.scratch = &Scratch{}
	}
	p.upgrade = newUpgrade(p)
	p.retry.stop()
	if cfg.Secondary != (fabric.Tuple{}) {
		p.path = &path{down: cfg.Down}
		if cfg.Down {
			p.path.number, p.path.hold = 1, cfg.Hold
		}
	}
	return p
}

// State returns the state of the connection.
func (p *Peer) State() State { return p.state }

// Epoch returns the epoch of the peer, or 0 if it is not known.
func (p *Peer) Epoch() uint16 { return p.epoch }

// Address returns the address of the peer on the network in use. It is known in Wait and all later states.
func (p *Peer) Address() fabric.Tuple { return p.to }

// Unacked returns the number of messages, including control messages, that were accepted and are neither acknowledged
// nor reported as lost.
func (p *Peer) Unacked() int { return p.pending }

// Room returns the length in bytes of the longest message that may be sent now. If it is negative, no message
// may be sent.
func (p *Peer) Room() int { return p.cfg.Stage - p.unackedBytes - messageCost }

// Untaken returns the number of bytes that were delivered and have not been reported by Taken.
func (p *Peer) Untaken() int { return p.untaken }

// Packet returns the length in bytes of the longest message that fits into one packet.
func (p *Peer) Packet() int {
	if p.mtu == 0 {
		return p.cfg.MTU - segmentLen
	}
	return p.mtu - segmentLen
}

// Counts returns the totals.
func (p *Peer) Counts() Counts { return p.counts }

// Step handles one event and returns the effects that the owner has to perform, in this order. now is the current time,
// which never decreases. The slice is valid until the next Step of any Peer with the same Scratch.
//
// The connection or the upgrade handles the event. Then the upgrade handles the reports of the connection, in their
// order. Control messages are queued after all messages that were accepted earlier. At the end, the connection sends as
// much as it can.
func (p *Peer) Step(now time.Duration, ev Event) []Effect {
	s := p.scratch
	p.now = now
	clear(s.effects) // drops references to messages that the owner has processed
	clear(s.news)
	s.effects, s.news, s.bytes = s.effects[:0], s.news[:0], s.bytes[:0]
	held := p.unackedBytes
	p.handle(ev)
	for _, n := range s.news {
		p.hear(n, ev.Busy)
	}
	p.follow()
	if p.unackedBytes < held && held > p.cfg.Stage/2 {
		p.emit(Effect{Kind: Writable})
	}
	p.arm()
	effects := s.effects
	if ev.Kind == Tick && p.pending == 0 {
		// Release the memory that a burst has needed. The effects of this step still refer to it. A Tick
		// follows the last packet of a burst, because the timer is set for resends and acknowledgements.
		p.queue = queue{}
		s.effects, s.news, s.bytes = nil, nil, nil
	}
	return effects
}

// handle passes an event to the state machine that handles it.
func (p *Peer) handle(ev Event) {
	switch ev.Kind {
	case Send:
		p.send(message{body: ev.Msg})
	case Bundle:
		p.send(message{body: ev.Msg, kind: flagBundle})
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
		if p.claimed() {
			p.upgrade.rest(ev.Busy)
		} else {
			p.rest()
		}
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
	default:
		p.look(ev)
	}
}

// follow connects if messages are staged or a connection is wanted, and sends what an open connection can send.
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

func (p *Peer) isOpen() bool { return p.state == Up || p.state == Closing }

func (p *Peer) want() input {
	if p.known {
		return inWantKnown
	}
	return inWant
}

// send appends a message to the queue of messages to be sent.
func (p *Peer) send(m message) {
	p.queue.push(m)
	p.unackedBytes += len(m.body) + messageCost
	p.pending++
	if p.state != Idle { // in Idle, follow does this at the end of the Step
		p.apply(p.want(), &cue{})
	}
}

func (p *Peer) rest() {
	if p.pending > 0 {
		return // a partly received message needs no check: the peer refuses FIN while it is sending
	}
	if p.state == Up && p.win.owed > 0 {
		p.acknowledge(0) // the peer refuses FIN while its messages are not acknowledged
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

// emitNews emits an effect and reports it to the upgrade.
func (p *Peer) emitNews(e Effect) {
	p.emit(e)
	p.tell(news{kind: e.Kind})
}

// tell reports n to the upgrade, which handles it after the connection has handled the current event.
func (p *Peer) tell(n news) { p.scratch.news = append(p.scratch.news, n) }

// transmit encodes the body of k in the scratch buffer and sends the packet to the peer.
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

// body appends the body of k to the scratch buffer. If the buffer has to grow, earlier bodies stay valid in the old
// memory.
func (p *Peer) body(k *packet) []byte {
	from := len(p.scratch.bytes)
	p.scratch.bytes = k.append(p.scratch.bytes)
	return p.scratch.bytes[from:len(p.scratch.bytes):len(p.scratch.bytes)]
}
