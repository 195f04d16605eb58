package peer

import (
	"time"

	"ibrun/fabric"
)

// State is where the connection of a pair of ranks stands, as one of them sees it.
type State uint8

// The states. docs/dev/states.md says how they follow each other.
const (
	Idle      State = iota // no connection; costs next to nothing
	Resolving              // the agent has been asked where the peer is
	Wait                   // we opened a generation; the peer has not answered
	Half                   // we can receive from the peer; it may not know that yet
	Up                     // both can receive
	Closing                // we asked to close; nothing of ours is under way
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
	causeCount                  // keeps String in step
)

func (c Cause) String() string {
	if c >= causeCount {
		return "unknown"
	}
	return [...]string{"unknown", "exited", "failed", "no such rank", "timed out", "restarted", "reset by peer"}[c]
}

// EventKind tells the events apart.
type EventKind uint8

// The events, each with the fields of Event that it uses.
const (
	// Send passes Msg to the Peer, which owns Msg from then on and always accepts it. The owner checks Room first.
	Send           EventKind = iota + 1
	Bundle                   // Msg: like Send, for what AppendBundled has made; the peer gets DeliverBundle
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
	OfferMade   // Token, Msg: answer to MakeOffer; the token is new in this rank, the offer has 1 to 64 bytes
	OfferFailed // Why: answer to MakeOffer
	Connected   // Token, Kept: the other side of a stream has proved itself; who accepts has, too
	DialFailed  // Token, Why: answer to Dial
	EndRead     // Token, Have: a stream was read up to the peer's end mark
	Lost        // Token, Why, PeerEnded, Over, Kept: a stream has failed
	Stopped     // Token, Have: the reader of a stream has ended after Stop
)

// Event is one thing that happened. It is a plain struct so that no event costs memory.
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
	Msg                []byte       // a message, or an offer of the fabric
	Body               []byte       // of a packet; used during the Step only
	Fresh              bool         // the rank itself has answered just now, through its agent: it runs
	Busy               bool         // a sender is at work: what it sends may be on the way to the stream

	Token     Token // of the stream that the event is about
	Why       error
	PeerEnded bool   // the stream has ended because the peer's process has, or closed it
	Over      bool   // the pair has ended already, for whatever reason
	Kept      bool   // the owner keeps what it writes until it has arrived
	Have      uint64 // messages of the peer that came by the stream, in all
}

// EffectKind tells the effects apart.
type EffectKind uint8

// The effects, each with the fields of Effect that it uses.
const (
	Transmit      EffectKind = iota + 1 // Packet, Gen, DstEpoch, Path, Body, To: add the rest, seal and post it
	Resolve                             // Least, Fresh: ask the agent; Fresh: caches may not answer
	SetTimer                            // At: a Tick then; replaces the timer that was set
	Deliver                             // Msg: the next message of the peer; the owner's from now on
	DeliverBundle                       // Msg: the same, for one sent by Bundle; see CutBundled
	Opened                              // the pair is connected
	// the pair is no longer connected and nothing was lost; what is staged opens it anew
	Closed
	Failed   // Cause, Lost, Least: the oldest Lost unacknowledged messages are lost, or may be
	Writable // Room has grown, and more than half of Config.Stage was in use
	Drained  // all that was sent is acknowledged
	// Least: a newer start of the peer counts from now on; Failed with the same Least follows if messages are lost
	Renewed
	ResolveSecondary // Least: ask for the peer's second address; answer with SecondaryFound
	Moved            // the pair goes by the other network from now on

	MakeOffer // let the fabric be dialled: OfferMade or OfferFailed after the effects of this Step
	Dial      // Token, Msg: answer with Connected or DialFailed; the offer in Msg is used until the dial has ended
	Read      // receive from the stream: EndRead or Lost when that ends
	Mark      // write the end mark behind all that was written
	Close     // Why: close the stream and forget it; nil: for no fault
	End       // Why, Alarm: the pair has ended for good, and what was on its stream is lost
	Notify    // a sender that Route let wait may ask again
	MayRest   // the stream was given up: the connection may rest now
	Stop      // end the stream; if it is being read, Stopped when nothing more of it can arrive
	Lose      // what was written to the stream and has not arrived is lost
	Again     // Have: Send what was written behind so many messages, after the effects of this Step
)

// Effect is one thing the owner has to do.
type Effect struct {
	Kind     EffectKind
	Packet   PacketKind
	Cause    Cause
	Fresh    bool
	Alarm    bool   // also tell receivers that take messages of any rank: the peer runs
	DstEpoch uint16 // epoch the packet is for
	Least    uint16 // oldest epoch that will do; 0: any. Of Failed: the newer start because of which it failed, or 0
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

// news is what the upgrade of a pair has to hear of its connection: Opened, Closed, Failed, Moved, or a control message.
type news struct {
	kind    EffectKind // 0: a control message
	control []byte
}

// Scratch is where effects and packet bodies are built. Peers that never run
// at the same time may share one, so that a thousand of them cost one buffer.
// The zero value is ready.
type Scratch struct {
	effects []Effect
	news    []news
	bytes   []byte
	pace    pace
}

// Expect says that answers may take so long at first: what is sent is not
// repeated sooner. What is measured later takes its place.
func (s *Scratch) Expect(answer time.Duration) { s.pace.smooth = min(answer, slowest) }
