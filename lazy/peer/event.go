package peer

import (
	"time"

	"ibrun/fabric"
)

// State is the state of the connection of a pair, as one of the two ranks sees it.
type State uint8

// The states. docs/dev/states.md says how they follow each other.
const (
	Idle      State = iota // no connection; costs next to nothing
	Resolving              // the agent has been asked where the peer is
	Wait                   // we have opened a generation, and the peer has not answered
	Half                   // we can receive from the peer; it may not know that yet
	Up                     // both can receive
	Closing                // we have asked to close the connection; no message of ours is unacknowledged
	states
)

func (s State) String() string {
	return [...]string{"Idle", "Resolving", "Wait", "Half", "Up", "Closing"}[s]
}

// Cause says why a connection failed.
type Cause uint8

// The causes. The first three are also what Unresolved tells.
const (
	Exited     Cause = iota + 1 // the rank has ended
	Broken                      // the rank has failed
	NoRank                      // there is no such rank, or it has no address
	TimedOut                    // it runs, and did not answer for 30 s
	Restarted                   // a newer epoch took the peer's place
	WasReset                    // the peer has given this connection up
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
	// Send passes Msg to the Peer, which owns Msg from then on and always accepts it. The owner checks Room first.
	Send           EventKind = iota + 1
	Bundle                   // Msg: like Send, for a bundle made by AppendBundled; the peer gets DeliverBundle
	Warm                     // connect without a message
	Resolved                 // Tuple, Epoch, Fresh: answer to Resolve
	Unresolved               // Cause: answer to Resolve, one of Exited, Broken, NoRank
	Packet                   // Packet, Gen, SrcEpoch, DstEpoch, Path, Body, Tuple (source address), Busy
	Tick                     // the timer has expired; early and unnecessary Ticks are harmless
	Rest                     // Busy: request to give the stream up, if there is one, or else to close an idle connection
	Taken                    // N: total bytes of the messages that the program has received since the last Taken
	Down                     // the first network of this rank has failed
	Recovered                // the first network of this rank works again
	SecondaryFound           // Tuple: answer to ResolveSecondary
	Flush                    // a goroutine waits until all sent messages are acknowledged
	Floor                    // Epoch: lowest valid epoch of the peer, which was restarted

	Upgrade     // Route has returned AfterUpgraded
	OfferMade   // Token, Msg: answer to MakeOffer; Token was not used before; Msg has 1 to 64 bytes
	OfferFailed // Why: answer to MakeOffer
	Connected   // Token, Kept: a stream is up and the peer has proved itself; if the peer dials, this rank has, too
	DialFailed  // Token, Why: answer to Dial
	EndRead     // Token, Have: the stream was read up to the peer's end mark
	Lost        // Token, Why, PeerEnded, Over, Kept: a stream has failed
	Stopped     // Token, Have: the reader of a stream has ended after the effect Stop
)

// Event is an input of a Peer. It is a plain struct, so that an event needs no allocation.
type Event struct {
	Kind               EventKind
	Packet             PacketKind
	Cause              Cause
	SrcEpoch, DstEpoch uint16       // epochs that a packet names
	Epoch              uint16       // epoch that the agent names, 1 or more (job.Epoch)
	Gen                uint32       // generation of a packet
	Path               uint16       // number that a packet carries
	N                  int          // bytes, 0 or more
	Tuple              fabric.Tuple // an address
	Msg                []byte       // a message, a bundle, or an offer of the fabric
	Body               []byte       // of a packet; used during the Step only
	Fresh              bool         // the rank has just answered through its agent, so it runs
	Busy               bool         // a sender is at work, and may be about to write to the stream

	Token     Token // stream that the event is about
	Why       error
	PeerEnded bool   // the stream has ended because the peer has closed it or its process has ended
	Over      bool   // the pair has ended already
	Kept      bool   // the owner retains what it writes until the peer has it
	Have      uint64 // number of messages that this rank has received by the stream
}

// EffectKind is the kind of an effect.
type EffectKind uint8

// The effects, each with the fields of Effect that it uses.
const (
	Transmit      EffectKind = iota + 1 // Packet, Gen, DstEpoch, Path, Body, To: seal the packet and send it to To
	Resolve                             // Least, Fresh: ask for the address; if Fresh is set, caches must not answer
	SetTimer                            // At: pass a Tick at that time; replaces the timer that was set
	Deliver                             // Msg: the next message of the peer; the Peer does not use it any more
	DeliverBundle                       // Msg: like Deliver, for the next bundle of the peer; see CutBundled
	Opened                              // the pair is connected
	// The pair is not connected any more, and nothing was lost. If messages are staged, the Peer connects again.
	Closed
	Failed   // Cause, Lost, Least: the oldest Lost unacknowledged messages are lost, or may be
	Writable // Room has grown, and more than half of Config.Stage was in use
	Drained  // all messages that were sent are acknowledged
	// Least: the peer was restarted with this epoch. Failed with the same Least follows if messages are lost.
	Renewed
	ResolveSecondary // Least: ask for the peer's second address; answer with SecondaryFound
	Moved            // the pair uses the other network from now on

	MakeOffer // make an offer for the peer to dial; pass OfferMade or OfferFailed after the effects of this Step
	Dial      // Token, Msg: answer with Connected or DialFailed; the offer in Msg is used until the dial has ended
	Read      // read the stream; pass EndRead or Lost when that ends
	Mark      // write the end mark after all messages
	Close     // Why: close the stream; Why is nil if there was no failure
	End       // Why, Alarm: the pair has ended for good, and the messages on its stream are lost
	Notify    // a sender for which Route has returned NotNow may ask again
	MayRest   // the stream was given up: the owner may close the connection if it is idle
	Stop      // stop the stream; if it is being read, pass Stopped when nothing more of it can arrive
	Lose      // messages that were written to the stream and have not arrived are lost
	Again     // Have: pass each message written after the first Have ones as Send, after the effects of this Step
)

// Effect is an action that the owner of a Peer has to perform.
type Effect struct {
	Kind     EffectKind
	Packet   PacketKind
	Cause    Cause
	Fresh    bool
	Alarm    bool   // the peer runs: also report the end to receivers that take messages of any rank
	DstEpoch uint16 // epoch the packet is for
	Least    uint16 // minimum epoch of the answer, 0: any. Renewed, Failed: new epoch after a restart, or 0
	Path     uint16 // number that the packet carries
	Gen      uint32
	Lost     int           // messages, 0 or more
	At       time.Duration // on the clock of Step
	To       fabric.Tuple
	Body     []byte // valid until the next Step of any Peer with the same Scratch
	Msg      []byte
	Token    Token
	Why      error
	Have     uint64
}

// news is what the connection reports to the upgrade: Opened, Closed, Failed, Moved, or a received control message.
type news struct {
	kind    EffectKind // 0 for a control message
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

// Expect sets the first estimate of the time in which peers answer. The Peer does not repeat a packet sooner. Measured
// times replace the estimate.
func (s *Scratch) Expect(answer time.Duration) { s.pace.smooth = min(answer, slowest) }
