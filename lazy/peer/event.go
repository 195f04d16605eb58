package peer

import (
	"time"

	"ibrun/fabric"
)

// State is the state of the datagram connection of a pair, as one of the two ranks sees it.
type State uint8

// The states. docs/dev/states.md says how they follow each other.
const (
	Idle      State = iota // there is no connection
	Resolving              // the agent has been asked for the address of the peer
	Wait                   // this rank has asked the peer to connect, and the peer has not answered
	Half                   // this rank can receive from the peer, which may not know that yet
	Up                     // both ranks can receive
	Closing                // this rank has sent FIN; the peer has acknowledged all messages that were sent before
	states                 // number of states
)

func (s State) String() string {
	return [...]string{"Idle", "Resolving", "Wait", "Half", "Up", "Closing"}[s]
}

// Cause says why a connection failed.
type Cause uint8

// The causes. The event Unresolved has one of the first three.
const (
	Exited     Cause = iota + 1 // the peer has ended without failing
	Broken                      // the peer has failed
	NoRank                      // the job has no such rank, or the rank has no address
	TimedOut                    // the peer runs, and has not answered for 30 s
	Restarted                   // the peer has a newer epoch: its process was replaced
	WasReset                    // the peer has ended this connection
	causeCount                  // number of causes
)

func (c Cause) String() string {
	if c >= causeCount {
		return "unknown"
	}
	return [...]string{"unknown", "exited", "failed", "no such rank", "timed out", "restarted", "reset by peer"}[c]
}

// EventKind is the kind of an event.
type EventKind uint8

// The events, each with the fields of Event that it uses.
const (
	// Msg: queue a message for the peer; the caller must not use Msg afterwards. Send does not check Room.
	Send           EventKind = iota + 1
	Bundle                   // Msg: like Send, for a bundle made by AppendBundled; the peer emits DeliverBundle
	Warm                     // connect although no message is staged
	Resolved                 // Tuple, Epoch, Fresh: positive answer to Resolve
	Unresolved               // Cause: negative answer to Resolve, one of Exited, Broken, NoRank
	Packet                   // Packet, Gen, SrcEpoch, DstEpoch, Path, Body, Tuple (source address), Busy
	Tick                     // the timer has expired; early and unnecessary Ticks are harmless
	Rest                     // Busy: return from the stream to datagrams, or without a stream close an idle connection
	Taken                    // N: bytes of delivered messages that the program has received since the last Taken
	Down                     // the first network of this rank has failed
	Recovered                // the first network of this rank works again
	SecondaryFound           // Tuple: answer to ResolveSecondary
	Flush                    // ask the peer for acknowledgements that it may be delaying
	Floor                    // Epoch: lowest valid epoch of the peer from now on, because it was restarted

	Upgrade     // Route has returned AfterUpgraded
	OfferMade   // Token, Msg: answer to MakeOffer; Token was not used before; Msg has 1 to 64 bytes
	OfferFailed // Why: answer to MakeOffer
	// Token, Kept: a stream is open, and the peer has proved its identity. If this rank has accepted the stream, it
	// has sent its own proof.
	Connected
	DialFailed // Token, Why: answer to Dial
	EndRead    // Token, Have: the stream was read up to the end mark, with which the peer returns to datagrams
	Lost       // Token, Why, PeerEnded, Over, Kept: a stream has failed
	Stopped    // Token, Have: the reader of a stream has ended after the effect Stop
)

// Event is an input of a Peer. The owner of the Peer, which is the code that calls Step, passes it. Event is a plain
// struct, so that an event needs no allocation.
type Event struct {
	Kind               EventKind
	Packet             PacketKind
	Cause              Cause
	SrcEpoch, DstEpoch uint16       // epochs of the sender and of the receiver in the header of a packet
	Epoch              uint16       // epoch of the peer according to the agent, 1 or more (job.Epoch)
	Gen                uint32       // number of the connection to which a packet belongs
	Path               uint16       // path number of a packet; see Moves
	N                  int          // number of bytes, 0 or more; see Taken
	Tuple              fabric.Tuple // address of the peer, or source address of a packet
	Msg                []byte       // a message, a bundle, or an offer of the fabric
	Body               []byte       // body of a packet; the Peer does not use it after the Step
	Fresh              bool         // the peer has just answered through its agent, so it runs
	Busy               bool         // a goroutine of this rank is sending, and may be about to write to the stream

	Token     Token  // identifies the stream that the event is about
	Why       error  // reason of a failure
	PeerEnded bool   // the stream has ended because the peer closed it or its process exited
	Over      bool   // the owner has already ended all communication of the pair
	Kept      bool   // the owner retains each message that it writes to the stream until the peer has received it
	Have      uint64 // number of messages that this rank has received from the stream
}

// EffectKind is the kind of an effect.
type EffectKind uint8

// The effects, each with the fields of Effect that it uses.
const (
	Transmit      EffectKind = iota + 1 // Packet, Gen, DstEpoch, Path, Body, To: seal the packet and send it to To
	Resolve                             // Least, Fresh: ask for the peer's address, without caches if Fresh is set
	SetTimer                            // At: pass a Tick at that time; replaces the timer set before
	Deliver                             // Msg: the next message of the peer; the Peer does not use Msg afterwards
	DeliverBundle                       // Msg: like Deliver, for the next bundle of the peer; see CutBundled
	Opened                              // the connection is open
	// The connection is closed, and no message was lost. If messages are staged, the Peer connects again.
	Closed
	Failed   // Cause, Lost, Least: the connection has failed; the oldest Lost unacknowledged messages may be lost
	Writable // Room has grown; more than half of Config.Stage was in use before
	Drained  // the peer has acknowledged all messages that were accepted
	// Least: the peer was restarted with this epoch. Failed with the same Least follows if messages are lost.
	Renewed
	ResolveSecondary // Least: ask for the peer's second address; answer with SecondaryFound
	Moved            // the pair uses the other network from now on

	MakeOffer // make an offer for the peer to dial; pass OfferMade or OfferFailed after the effects of this Step
	Dial      // Token, Msg: answer with Connected or DialFailed; the offer in Msg is used until the dial has ended
	Read      // read messages from the stream; pass EndRead or Lost when that ends
	Mark      // write the end mark to the stream, after all messages
	Close     // Why: close the stream; Why is nil if there was no failure
	End       // Why, Alarm: the pair can no longer communicate, and the messages on its stream are lost
	Notify    // senders for which Route has returned NotNow should call Route again
	MayRest   // the pair has returned from its stream to datagrams; pass Rest to close the connection
	Stop      // abort the stream; if it is being read, pass Stopped when its reader has ended
	Lose      // the retained messages of the stream that the peer has not received are lost
	Again     // Have: after this Step, pass as Send each message that was written to the stream after the first Have
)

// Effect is an action that the owner of a Peer has to perform.
type Effect struct {
	Kind     EffectKind
	Packet   PacketKind
	Cause    Cause
	Fresh    bool   // the answer must not come from a cache
	Alarm    bool   // the peer still runs: report the end also to receivers that accept messages of any rank
	DstEpoch uint16 // epoch of the peer for which the packet is
	Least    uint16 // minimum epoch of the answer; in Renewed and Failed the peer's epoch after a restart, else 0
	Path     uint16 // path number of the packet; see Moves
	Gen      uint32
	Lost     int           // number of messages, 0 or more
	At       time.Duration // time of the next Tick, on the clock of Step
	To       fabric.Tuple
	Body     []byte // valid until the next Step of any Peer with the same Scratch
	Msg      []byte
	Token    Token
	Why      error  // reason of a failure; nil if there was none
	Have     uint64 // number of messages that the peer has received from the stream
}

// news is a report of the datagram connection to the upgrade: a change of its state, or a received control message.
type news struct {
	kind    EffectKind // Opened, Closed, Failed or Moved; 0 for a control message
	control []byte
}

// Scratch holds the buffers for effects and packet bodies. Peers that never run at the same time may share one to save
// memory. The zero value is ready for use.
type Scratch struct {
	effects []Effect
	news    []news
	bytes   []byte
	pace    pace
}

// Expect sets the initial estimate of the time in which a peer answers a packet. A value above 4 s counts as 4 s. A
// Peer waits at least that long before it sends a packet again. Measured times replace the estimate gradually.
func (s *Scratch) Expect(answer time.Duration) { s.pace.smooth = min(answer, slowest) }
