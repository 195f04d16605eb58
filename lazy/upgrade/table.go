package upgrade

// region is one of the three things that a Pair knows, each with states of its own.
type region uint8

const (
	stream   region = iota // the stream itself
	outgoing               // how our messages go
	incoming               // how the peer's come
	regions
)

func (r region) String() string {
	return [...]string{"The stream", "Our direction", "The peer's direction"}[r]
}

// State is where one region of a pair stands.
type State uint8

// The states of the stream, then those of our direction and of the peer's.
const (
	None     State = iota // nobody has asked for a stream
	Barred                // attempts have failed: none is made until the connection has rested
	Wanted                // the lower rank has sent WANT
	Offered               // the higher rank has sent OFFER
	Dialing               // the lower rank has received OFFER and dials
	Accepted              // the higher rank has proved itself; the lower one may not hear of it
	Open                  // both sides have the stream
	Leaving               // LEAVE was sent, and not received
	Left                  // LEAVE was sent and received; both directions come back
	Broken                // the stream has failed with what was on it: the pair has ended
	Stopping              // the stream has failed; what has come by it is still being taken
	Resuming              // RESUME was sent: what the peer lacks follows when it has said so, too

	OutDatagrams // our messages are datagrams
	OutStream    // SWITCH was sent: they go by stream
	OutMarked    // the end mark was written: the next one waits for RETURNED

	InDatagrams // the peer's messages are datagrams
	InStream    // they are read from the stream
	states
)

func (s State) String() string {
	return [...]string{
		"None", "Barred", "Wanted", "Offered", "Dialing", "Accepted", "Open", "Leaving", "Left", "Broken",
		"Stopping", "Resuming",
		"Datagrams", "Stream", "Marked", "Datagrams", "Stream",
	}[s]
}

func (s State) region() region {
	switch {
	case s >= InDatagrams:
		return incoming
	case s >= OutDatagrams:
		return outgoing
	}
	return stream
}

// input is an event after the rules have looked at it.
type input uint8

const (
	inNeed        input = iota // a message should go by stream; this rank dials
	inNeedOffer                // the same; the peer dials
	inWant                     // WANT
	inOffer                    // OFFER with another token
	inOfferMade                // the fabric can be dialled
	inOfferFailed              // it cannot
	inConnected                // the other side has proved itself; we dial
	inAccepted                 // the other side has proved itself, and so have we; it dials
	inTaken                    // TAKEN
	inDialFailed               // the dial has failed
	inGiveUp                   // GIVEUP
	inUnanswered               // the connection has closed in which WANT or OFFER was sent
	inRest                     // the owner would give the stream up, and nobody is sending
	inLeave                    // LEAVE; no sender is at work
	inLeaveBusy                // LEAVE; a sender is at work
	inStay                     // STAY
	inBothBack                 // LEAVE was sent and received, and both directions are datagrams again
	inBroken                   // BROKEN
	inLost                     // the stream has failed
	inCut                      // the same, and what is written to it is kept until it has arrived
	inResume                   // RESUME
	inStopped                  // all that came by the stream is taken
	inResumed                  // RESUME was sent and received
	inMoved                    // the pair goes by another network
	inPeerEnded                // the stream has ended, as the peer's process has
	inTried                    // as many attempts have failed as are made
	inRested                   // the connection was closed and nothing was lost
	inReset                    // the connection has failed

	inMove     // the next message moves our direction
	inMark     // LEAVE is sent
	inReturned // RETURNED

	inSwitch  // SWITCH
	inMissed  // SWITCH, and the stream has failed
	inEndMark // the stream was read up to the end mark

	inOver // there is no stream any more
	inputs
)

func (i input) String() string {
	return [...]string{
		"stream needed, we dial", "stream needed, the peer dials", "WANT", "OFFER", "offer made", "no offer",
		"stream is there", "stream accepted", "TAKEN", "dial failed", "GIVEUP", "nobody answered",
		"rest", "LEAVE", "LEAVE, sender at work", "STAY", "both directions are back", "BROKEN",
		"stream failed", "stream failed, messages are kept", "RESUME", "stream stopped", "both have resumed",
		"other network", "stream ended", "all attempts failed", "connection closed", "connection failed",
		"message for the stream", "we sent LEAVE", "RETURNED", "SWITCH",
		"SWITCH, stream failed", "end mark", "stream is over",
	}[i]
}

// of lists the inputs that each region has rows for.
var of = [regions][]input{
	stream: {
		inNeed, inNeedOffer, inWant, inOffer, inOfferMade, inOfferFailed, inConnected, inAccepted, inTaken,
		inDialFailed, inGiveUp, inUnanswered, inRest, inLeave, inLeaveBusy, inStay, inBothBack, inBroken,
		inLost, inCut, inResume, inStopped, inResumed, inMoved, inPeerEnded, inTried, inRested, inReset,
	},
	outgoing: {inMove, inMark, inReturned, inOver},
	incoming: {inSwitch, inMissed, inEndMark, inOver},
}

// action is one of the things that a row does: a Control, which is sent; an EffectKind, which is emitted as an effect
// without other fields; or a step.
type action any

// step is an action that a Control or an EffectKind alone does not describe. The array steps defines each step.
type step uint8

const (
	doAsk step = iota
	doKeep
	doDial
	doStream
	doGiveUp
	doFail
	doBreak
	doForget
	doPardon
	doLeave
	doEnd
	doAlarm
	doPeers
	doResume
	doAgain
	doLeft
	doStayed
	doLose
	stepCount
)

// row defines the next state and the actions for each combination of the given states of one region and inputs.
type row struct {
	from    []State
	inputs  []input
	next    State // the constant same means that the state does not change
	actions []action
	why     string
}

// same stands for the state that there is.
const same = states
