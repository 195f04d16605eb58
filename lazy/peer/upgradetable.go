package peer

// region is one of the three things that an upgrade consists of, each with states of its own.
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

// upgradeState is where one region of a pair stands.
type upgradeState uint8

// The states of the stream, then those of our direction and of the peer's.
const (
	noStream upgradeState = iota // nobody has asked for a stream
	barred                       // attempts have failed: none is made until the connection has rested
	wanted                       // the lower rank has sent WANT
	offered                      // the higher rank has sent OFFER
	dialing                      // the lower rank has received OFFER and dials
	accepted                     // the higher rank has proved itself; the lower one may not hear of it
	open                         // both sides have the stream
	leaving                      // LEAVE was sent, and not received
	left                         // LEAVE was sent and received; both directions come back
	broken                       // the stream has failed with what was on it: the pair has ended
	stopping                     // the stream has failed; what has come by it is still being taken
	resuming                     // RESUME was sent: what the peer lacks follows when it has said so, too

	outDatagrams // our messages are datagrams
	outStream    // SWITCH was sent: they go by stream
	outMarked    // the end mark was written: the next one waits for RETURNED

	inDatagrams // the peer's messages are datagrams
	inStream    // they are read from the stream
	upgradeStates
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

// upgradeInput is an event after the rules have looked at it.
type upgradeInput uint8

const (
	onNeed        upgradeInput = iota // a message should go by stream; this rank dials
	onNeedOffer                       // the same; the peer dials
	onWant                            // WANT
	onOffer                           // OFFER with another token
	onOfferMade                       // the fabric can be dialled
	onOfferFailed                     // it cannot
	onConnected                       // the other side has proved itself; we dial
	onAccepted                        // the other side has proved itself, and so have we; it dials
	onTaken                           // TAKEN
	onDialFailed                      // the dial has failed
	onGiveUp                          // GIVEUP
	onUnanswered                      // the connection has closed in which WANT or OFFER was sent
	onRest                            // the owner would give the stream up, and nobody is sending
	onLeave                           // LEAVE; no sender is at work
	onLeaveBusy                       // LEAVE; a sender is at work
	onStay                            // STAY
	onBothBack                        // LEAVE was sent and received, and both directions are datagrams again
	onBroken                          // BROKEN
	onLost                            // the stream has failed
	onCut                             // the same, and what is written to it is kept until it has arrived
	onResume                          // RESUME
	onStopped                         // all that came by the stream is taken
	onResumed                         // RESUME was sent and received
	onMoved                           // the pair goes by another network
	onPeerEnded                       // the stream has ended, as the peer's process has
	onTried                           // as many attempts have failed as are made
	onRested                          // the connection was closed and nothing was lost
	onReset                           // the connection has failed

	onMove     // the next message moves our direction
	onMark     // LEAVE is sent
	onReturned // RETURNED

	onSwitch  // SWITCH
	onMissed  // SWITCH, and the stream has failed
	onEndMark // the stream was read up to the end mark

	onOver // there is no stream any more
	upgradeInputs
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

// upgradeAction is one of the things that a row does: a controlKind, which is sent; an EffectKind, which is emitted as an
// effect without other fields; or an *upgradeStep.
type upgradeAction any

// upgradeStep is an action that a controlKind or an EffectKind alone does not describe.
type upgradeStep struct {
	name string // in docs/dev/upgrade.md
	do   func(*upgrade, *upgradeCue)
}
