package peer

// region identifies one of the three state variables of an upgrade. Each region has its own set of states.
type region uint8

const (
	stream   region = iota // whether the pair has a stream
	outgoing               // whether this rank sends datagrams or uses the stream
	incoming               // whether the peer sends datagrams or uses the stream
	regions                // number of regions
)

func (r region) String() string {
	return [...]string{"The stream", "Our direction", "The peer's direction"}[r]
}

// upgradeState is a state of one region.
type upgradeState uint8

// The states of the three regions. The lower rank of the pair dials, and the higher one makes the offer. In the
// comments below, "we" means this rank, and a word in capitals is a control message.
const (
	noStream upgradeState = iota // there is no stream and no attempt to open one
	barred                       // too many attempts failed; more follow only after the connection or network changes
	wanted                       // we are the lower rank and have sent WANT
	offered                      // we are the higher rank and are making an offer, or have sent OFFER
	dialing                      // we are the lower rank, have received OFFER and dial
	accepted                     // we are the higher rank and have accepted the stream, but not received TAKEN
	open                         // the stream is open; each direction may use it
	leaving                      // we have sent LEAVE; the peer has not
	left                         // LEAVE was sent and received; both directions return to datagrams
	broken                       // the stream has failed and its messages are lost: the pair has ended
	stopping                     // the stream has failed; received messages are still being read from it
	resuming                     // we have sent RESUME and wait for the RESUME of the peer

	outDatagrams // our messages are datagrams
	outStream    // we have sent SWITCH: our messages use the stream
	outMarked    // we have written the end mark to the stream; our next message waits for RETURNED

	inDatagrams // the peer's messages are datagrams
	inStream    // we have received SWITCH: the peer's messages use the stream

	upgradeStates // number of states
)

func (s upgradeState) String() string {
	return [...]string{
		"None", "Barred", "Wanted", "Offered", "Dialing", "Accepted", "Open", "Leaving", "Left", "Broken",
		"Stopping", "Resuming",
		"Datagrams", "Stream", "Marked", "Datagrams", "Stream",
	}[s]
}

func (s upgradeState) region() region {
	switch {
	case s >= inDatagrams:
		return incoming
	case s >= outDatagrams:
		return outgoing
	}
	return stream
}

// upgradeInput is an input of upgradeTable. The methods of upgrade derive it from an event, a control message, or the
// current states. In the comments below, a word in capitals is a control message that was received.
type upgradeInput uint8

const (
	onNeed        upgradeInput = iota // a message needs a stream; this rank dials
	onNeedOffer                       // a message needs a stream; the peer dials
	onWant                            // WANT
	onOffer                           // OFFER with a new token
	onOfferMade                       // the owner has made the offer
	onOfferFailed                     // the owner could not make an offer
	onConnected                       // the dial of this rank has succeeded, and the peer has proved itself
	onAccepted                        // the dial of the peer was accepted, and both ranks have proved themselves
	onTaken                           // TAKEN
	onDialFailed                      // the dial of this rank has failed
	onGiveUp                          // GIVEUP
	onUnanswered                      // the connection in which WANT or OFFER was sent has closed
	onRest                            // the owner asks to return to datagrams, and no sender is at work
	onLeave                           // LEAVE; no sender is at work
	onLeaveBusy                       // LEAVE; a sender is at work
	onStay                            // STAY
	onBothBack                        // LEAVE was sent and received, and both directions are datagrams again
	onBroken                          // BROKEN
	onLost                            // the stream has failed, and messages written to it are not retained
	onCut                             // the stream has failed, and messages written to it are retained
	onResume                          // RESUME
	onStopped                         // nothing more is read from the failed stream
	onResumed                         // RESUME was sent and received; checked after each event
	onMoved                           // the pair has moved to the other network
	onPeerEnded                       // the stream has ended because the peer's process has ended
	onTried                           // the maximum number of attempts has failed
	onRested                          // the connection was closed without losing a message
	onReset                           // the connection has failed

	onMove     // this rank sends its next message on the stream
	onMark     // this rank sends LEAVE
	onReturned // RETURNED

	onSwitch  // SWITCH
	onMissed  // SWITCH, received after the stream has failed
	onEndMark // the stream was read up to the end mark of the peer

	onOver // the stream, or the attempt to open one, has ended

	upgradeInputs // number of inputs
)

func (i upgradeInput) String() string {
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

// upgradeAction is an action of a row. A controlKind is sent as a control message. An EffectKind is emitted as an
// effect without other fields. An *upgradeStep is called.
type upgradeAction any

// upgradeStep is an action that does more than send a control message or emit an effect without fields.
type upgradeStep struct {
	name string // description of the action for docs/dev/upgrade.md
	do   func(*upgrade, *upgradeCue)
}
