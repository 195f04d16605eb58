package peer

// input is an input of the table. It is derived from an event. HY stands for flagHaveYou, and ACK for flagAnswer.
type input uint8

const (
	inWant      input = iota // a message is staged or a connection is wanted; the peer's address is not known
	inWantKnown              // a message is staged or a connection is wanted; the peer's address is known
	inFound                  // the agent has answered with an address of the current epoch of the peer
	inMissing                // the agent has answered that the peer has ended, has failed or does not exist
	inState0                 // STATE with ACK alone: the peer asks for a connection
	inState1Ack              // STATE with HY and ACK
	inState1                 // STATE with HY alone
	inStale                  // packet that asks for an answer, of a generation that has ended
	inSegment                // SEGMENT of the current generation
	inAck                    // the packet ACK of the current generation
	inFinGrant               // FIN that decide grants
	inFinRefuse              // FIN that decide refuses
	inFinAck                 // FINACK for the last FIN of this rank
	inFinNak                 // FINNAK for the last FIN of this rank
	inReject                 // REJECT: the current generation has ended at the peer
	inResend                 // no answer until the timer has expired
	inGiveUp                 // no answer for 30 s, although the peer runs
	inRest                   // the owner asks to close, and no message is unacknowledged
	inputs
)

func (i input) String() string {
	return [...]string{
		"send", "send, address known", "address found", "peer is gone", "STATE", "STATE HY ACK", "STATE HY",
		"left generation", "SEGMENT", "ACK",
		"FIN, granted", "FIN, refused", "FINACK", "FINNAK", "REJECT", "no answer yet",
		"no answer for 30 s though it runs", "rest",
	}[i]
}

// action is an action of a row. HY and ACK are flags of STATE; "timer" means that the timer starts.
type action uint8

const (
	doAsk     action = iota + 1 // ask the agent for an address
	doAddress                   // store the address in the input
	doOpen                      // start the next generation: send STATE ACK, timer
	doOffer                     // send STATE HY ACK, timer
	doRepeat                    // send STATE HY ACK again
	doConfirm                   // send STATE HY
	doUp                        // create the window, stop the timer, emit Opened
	doTake                      // handle the data and the acknowledgement of the packet
	doResend                    // resend the unanswered packets, double the delay until the next resend
	doFin                       // start the next attempt to close: send FIN, timer
	doGrant                     // send FINACK
	doRefuse                    // send FINNAK
	doBack                      // stay open: stop the timer
	doClose                     // release the window, emit Closed
	doReset                     // like doClose, but emit Failed if an unacknowledged message was sent at least in part
	doFail                      // drop all unacknowledged messages, emit Failed
	doReject                    // send REJECT with the current generation
	doLeave                     // adopt the generation of the packet, so that the next one is higher
	actions
)

func (a action) String() string {
	return [...]string{
		"", "ask the agent", "keep the address", "generation + 1, send STATE ACK, timer", "send STATE HY ACK, timer",
		"send STATE HY ACK",
		"send STATE HY", "make the window, Opened", "deliver, acknowledge, move the window", "resend, double the timer",
		"attempt + 1, send FIN, timer",
		"send FINACK", "send FINNAK", "stop the timer", "free the window, Closed",
		"free the window; Failed if a message was begun, else Closed",
		"Failed with everything unacknowledged", "send REJECT", "take over the generation that ended",
	}[a]
}

type connectionRow = row[State, input, action]

// table contains the row for each state and input of the connection. TestStates writes the table of docs/dev/states.md
// from it. Rows for several states come first.
var table = []connectionRow{
	{in(Idle, Resolving), on(inState1Ack, inState1), same, nil,
		"cannot be: it answers a STATE of ours, and we sent none"},
	{in(Idle, Resolving), on(inSegment, inAck, inFinAck, inFinNak), same, nil,
		"cannot be: of this generation it is a left one"},
	{in(Resolving, Wait), on(inRest), same, nil, "somebody wants it open"},
	{in(Wait, Half, Up, Closing), on(inWant), same, nil, "cannot be: the address is known"},
	{in(Wait, Half), on(inWantKnown), same, nil, "stays staged"},
	{in(Wait, Half, Up, Closing), on(inFound), same, []action{doAddress}, "the next resend goes there"},
	{in(Wait, Half, Closing), on(inMissing), Idle, []action{doFail}, ""},
	{in(Wait, Half), on(inFinAck, inFinNak), same, nil, "cannot be: we sent no FIN in this generation"},
	{in(Wait, Half, Closing), on(inResend), same, []action{doResend}, ""},
	{in(Wait, Half, Up), on(inGiveUp), Idle, []action{doFail}, ""},
	{in(Half, Up, Closing), on(inStale), same, nil, "an older generation"},
	{in(Up, Closing), on(inState1), same, nil, "answers a duplicate of ours"},
	{in(Up, Closing), on(inAck), same, []action{doTake}, ""},

	{in(Idle), on(inWant), Resolving, []action{doAsk},
		"the agent knows, or parks the question until the rank has published"},
	{in(Idle), on(inWantKnown), Wait, []action{doOpen},
		"an address from before saves the question; if it is stale, REJECT or the timer tells"},
	{in(Idle), on(inFound), same, []action{doAddress}, "a late answer is still true"},
	{in(Idle), on(inMissing), same, nil, "nobody waits for it"},
	{in(Idle), on(inState0), Half, []action{doAddress, doOffer}, "the answer goes to the tuple in STATE: no look-up"},
	{in(Idle), on(inStale), same, []action{doReject},
		"the peer may sit in a generation that failed here, or open one that was used up"},
	{in(Idle), on(inFinGrant), same, []action{doGrant}, "our FINACK was lost, or the connection failed here"},
	{in(Idle), on(inFinRefuse), same, []action{doRefuse},
		"a late duplicate: the same attempt gets the same answer for ever"},
	{in(Idle), on(inReject), same, []action{doAddress, doLeave},
		"the next attempt starts above what the peer has seen"},
	{in(Idle), on(inResend, inGiveUp), same, nil, "cannot be: nothing is awaited"},
	{in(Idle), on(inRest), same, nil, "it is at rest"},

	{in(Resolving), on(inWant), same, nil, "stays staged"},
	{in(Resolving), on(inWantKnown), same, nil, "cannot be: whoever brings the address moves us on"},
	{in(Resolving), on(inFound), Wait, []action{doAddress, doOpen}, ""},
	{in(Resolving), on(inMissing), Idle, []action{doFail}, "known at once, no time-out"},
	{in(Resolving), on(inState0), Half, []action{doAddress, doOffer}, "the peer was first; its STATE has the address"},
	{in(Resolving), on(inStale), same, []action{doReject}, "as in Idle: the peer opens above it, or we do"},
	{in(Resolving), on(inFinGrant), same, []action{doGrant}, "as in Idle"},
	{in(Resolving), on(inFinRefuse), same, []action{doRefuse}, "as in Idle"},
	{in(Resolving), on(inReject), Wait, []action{doAddress, doLeave, doOpen},
		"REJECT has the address of the current epoch"},
	{in(Resolving), on(inResend), same, []action{doAsk, doBack}, "the agent's answer was older than what we know"},
	{in(Resolving), on(inGiveUp), same, nil, "cannot be: the agent answers when it can"},

	{in(Wait), on(inState0), Half, []action{doAddress, doOffer},
		"crossing: each answers the other, no winner is needed"},
	{in(Wait), on(inState1Ack), Up, []action{doAddress, doUp, doConfirm},
		"both have the address; the peer may send when it has our answer"},
	{in(Wait), on(inState1), Up, []action{doAddress, doUp, doConfirm}, "cannot be, but says the same"},
	{in(Wait), on(inStale), same, nil, "an older generation; our STATE will move the peer to this one"},
	{in(Wait), on(inSegment, inAck, inFinGrant, inFinRefuse), same, nil,
		"cannot be: the peer is not Up before it has our HY"},
	{in(Wait), on(inReject), same, []action{doAddress, doLeave, doOpen},
		"the peer has used this generation up: open the one above"},

	{in(Half), on(inState0), same, []action{doRepeat}, "our answer was lost, or this is a duplicate"},
	{in(Half), on(inState1Ack), Up, []action{doUp}, "crossing; if our HY was lost, the peer's timer asks for it"},
	{in(Half), on(inState1), Up, []action{doUp}, "the peer has our HY and is Up"},
	{in(Half), on(inSegment), Up, []action{doUp, doTake}, "only a peer that is Up sends data"},
	{in(Half), on(inAck), Up, []action{doUp, doTake}, "only a peer that is Up acknowledges"},
	{in(Half), on(inFinGrant), Idle, []action{doUp, doGrant, doClose}, "only a peer that is Up closes"},
	{in(Half), on(inFinRefuse), Up, []action{doUp, doRefuse}, "the peer is Up and we have something to say"},
	{in(Half), on(inReject), Idle, []action{doLeave, doReset},
		"the peer gave up; what is staged opens the next generation"},
	{in(Half), on(inRest), same, nil, "the peer wants it open"},

	{in(Up), on(inWantKnown), same, nil, "goes into the window"},
	{in(Up), on(inMissing), Idle, []action{doFail}, "the agent was asked because segments were not acknowledged"},
	{in(Up), on(inState0), same, []action{doConfirm}, "a duplicate, or the peer lost our answer"},
	{in(Up), on(inState1Ack), same, []action{doConfirm}, "the peer is Half and lost our answer"},
	{in(Up), on(inSegment), same, []action{doTake}, ""},
	{in(Up), on(inFinGrant), Idle, []action{doGrant, doClose}, "all of ours is acknowledged and all of theirs is here"},
	{in(Up), on(inFinRefuse), same, []action{doRefuse}, "something is under way, or an old attempt"},
	{in(Up), on(inFinAck), same, nil, "cannot be: a FINACK means that the peer has left"},
	{in(Up), on(inFinNak), same, nil, "a duplicate"},
	{in(Up), on(inReject), Idle, []action{doLeave, doReset}, "the connection failed at the peer"},
	{in(Up), on(inResend), same, []action{doResend}, "the oldest segment again, or a question when the window is shut"},
	{in(Up), on(inRest), Closing, []action{doFin}, ""},

	{in(Closing), on(inWantKnown), same, nil, "stays staged until the peer has decided"},
	{in(Closing), on(inState0), same, []action{doConfirm}, "a duplicate"},
	{in(Closing), on(inState1Ack), same, []action{doConfirm}, "the peer is still Half"},
	{in(Closing), on(inSegment), same, []action{doTake},
		"the peer sent it before it had our FIN, and will refuse that"},
	{in(Closing), on(inFinGrant), Idle, []action{doGrant, doClose}, "crossing: both grant"},
	{in(Closing), on(inFinRefuse), same, []action{doRefuse}, "an old attempt"},
	{in(Closing), on(inFinAck), Idle, []action{doClose}, "what was staged meanwhile opens the next generation"},
	{in(Closing), on(inFinNak), Up, []action{doBack}, "the peer has something under way"},
	{in(Closing), on(inReject), Idle, []action{doLeave, doClose}, "the peer has left; nothing of ours was under way"},
	{in(Closing), on(inGiveUp), Idle, []action{doFail}, "even if nothing is lost: the owner should know"},
	{in(Closing), on(inRest), same, nil, "it is about to"},
}

// index contains the rows of table, indexed by state and input.
var index = indexed(table, states, inputs)
