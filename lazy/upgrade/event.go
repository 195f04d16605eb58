package upgrade

// EventKind tells the events apart.
type EventKind uint8

// The events, each with the fields of Event that it uses.
const (
	Opened      EventKind = iota + 1 // datagrams can be sent: the pair's connection is open
	Closed                           // the connection has ended and nothing was lost
	Failed                           // the connection has failed, or the owner has no use for the pair any more
	Received                         // Msg, Busy: a control message of the peer
	OfferMade                        // Token, Offer: answer to MakeOffer; the token is new in this rank
	OfferFailed                      // Why: answer to MakeOffer
	Connected                        // Token, Kept: the other side of a stream has proved itself; who accepts has, too
	DialFailed                       // Token, Why: answer to Dial
	Rest                             // Busy: the owner would like the stream given up, if it is not needed
	EndRead                          // Token: a stream was read up to the peer's end mark
	Lost                             // Token, Why, PeerEnded, Over, Kept: a stream has failed
	Stopped                          // Token, Have: answer to Stop
	Moved                            // the pair goes by another network from now on
)

// Event is one thing that happened.
type Event struct {
	Kind      EventKind
	Token     Token  // of the stream that it is about
	Msg       []byte // used during the Step only
	Offer     []byte // of the fabric, 1 to 64 bytes; the Pair's from now on
	Why       error
	Busy      bool   // a sender is at work: what it sends may be on the way to the stream
	PeerEnded bool   // the stream has ended because the peer's process has, or closed it
	Over      bool   // the pair has ended already, for whatever reason
	Kept      bool   // the owner keeps what it writes until it has arrived
	Have      uint64 // messages of the peer that came by the stream, in all
}

// EffectKind tells the effects apart.
type EffectKind uint8

// The effects, each with the fields of Effect that it uses.
const (
	Send      EffectKind = iota + 1 // Control, Msg: send it as a control, in this connection or the next
	MakeOffer                       // let the fabric be dialled: OfferMade or OfferFailed at once
	Dial                            // Token, Offer: answer with Connected or DialFailed
	Read                            // receive from the stream: EndRead or Lost when that ends
	Mark                            // write the end mark behind all that was written
	Close                           // Why: close the stream and forget it; nil: for no fault
	End                             // Why, Alarm: the pair has ended for good, and what was on its stream is lost
	Notify                          // a sender that Route let wait may ask again
	Idle                            // the stream was given up: the connection may rest now
	Stop                            // end the stream, and answer with Stopped when nothing more of it can arrive
	Lose                            // what was written to the stream and has not arrived is lost
	Again                           // Have: send what was written behind so many messages again, as datagrams
)

// Effect is one thing that the owner has to do.
type Effect struct {
	Kind    EffectKind
	Control Control
	Alarm   bool // also tell receivers that take messages of any rank: the peer runs
	Token   Token
	Msg     []byte // the owner's
	Offer   []byte // used until the dial has ended
	Why     error
	Have    uint64
}

// Verdict is how a message goes.
type Verdict uint8

// The verdicts of Route.
const (
	ByDatagram Verdict = iota
	ByStream
	Wait // neither now: ask again after Notify, or when the window has room
)
