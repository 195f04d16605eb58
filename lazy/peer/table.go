package peer

// input is an event after it has been looked at: the column of the table.
type input uint8

const (
	inWant      input = iota // a message is staged or a connection wished for; the peer's address is not known
	inWantKnown              // the same; the address is known
	inFound                  // the agent named an address of the epoch we know
	inMissing                // the agent answered our question: it is gone
	inState0                 // STATE without HY: "I would connect"
	inState1Ack              // STATE with HY and ACK
	inState1                 // STATE with HY alone
	inStale                  // what asks for an answer, of a generation that we have left
	inSegment
	inAck
	inFinGrant  // FIN that may be granted, or was
	inFinRefuse // FIN that may not be granted, or was not
	inFinAck    // of our present attempt
	inFinNak    // of our present attempt
	inReject    // our generation has ended at the peer
	inResend    // the timer: no answer
	inGiveUp    // no answer for 30 s in which the peer ran
	inRest      // the owner would close, and all is acknowledged
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

// action is one step of what a row does.
type action uint8

const (
	doAsk     action = iota + 1 // ask the agent for an address
	doAddress                   // keep the address that came
	doOpen                      // next generation: STATE ACK, timer
	doOffer                     // STATE HY ACK, timer
	doRepeat                    // STATE HY ACK again
	doConfirm                   // STATE HY
	doUp                        // Opened: make the window, stop the timer
	doTake                      // what the packet brings and acknowledges
	doResend                    // the same bytes again, timer doubled
	doFin                       // next attempt: FIN, timer
	doGrant                     // FINACK
	doRefuse                    // FINNAK
	doBack                      // stop the timer
	doClose                     // Closed: free the window
	doReset                     // free the window; Failed if a message was begun and not acknowledged
	doFail                      // Failed: everything unacknowledged is lost
	doReject                    // REJECT with our generation
	doLeave                     // take over the generation that ended
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

type row struct {
	state   State
	input   input
	next    State
	actions []action
	why     string
}

// table is the whole of the handshake. docs/dev/states.md is made of it.
var table = []row{
	{Idle, inWant, Resolving, []action{doAsk}, "the agent knows, or parks the question until the rank has published"},
	{Idle, inWantKnown, Wait, []action{doOpen},
		"an address from before saves the question; if it is stale, REJECT or the timer tells"},
	{Idle, inFound, Idle, []action{doAddress}, "a late answer is still true"},
	{Idle, inMissing, Idle, nil, "nobody waits for it"},
	{Idle, inState0, Half, []action{doAddress, doOffer}, "the answer goes to the tuple in STATE: no look-up"},
	{Idle, inState1Ack, Idle, nil, "cannot be: it answers a STATE of ours, and we sent none"},
	{Idle, inState1, Idle, nil, "cannot be: it answers a STATE of ours, and we sent none"},
	{Idle, inStale, Idle, []action{doReject},
		"the peer may sit in a generation that failed here, or open one that was used up"},
	{Idle, inSegment, Idle, nil, "cannot be: of this generation it is a left one"},
	{Idle, inAck, Idle, nil, "cannot be: of this generation it is a left one"},
	{Idle, inFinGrant, Idle, []action{doGrant}, "our FINACK was lost, or the connection failed here"},
	{Idle, inFinRefuse, Idle, []action{doRefuse}, "a late duplicate: the same attempt gets the same answer for ever"},
	{Idle, inFinAck, Idle, nil, "cannot be: of this generation it is a left one"},
	{Idle, inFinNak, Idle, nil, "cannot be: of this generation it is a left one"},
	{Idle, inReject, Idle, []action{doAddress, doLeave}, "the next attempt starts above what the peer has seen"},
	{Idle, inResend, Idle, nil, "cannot be: nothing is awaited"},
	{Idle, inGiveUp, Idle, nil, "cannot be: nothing is awaited"},
	{Idle, inRest, Idle, nil, "it is at rest"},

	{Resolving, inWant, Resolving, nil, "stays staged"},
	{Resolving, inWantKnown, Resolving, nil, "cannot be: whoever brings the address moves us on"},
	{Resolving, inFound, Wait, []action{doAddress, doOpen}, ""},
	{Resolving, inMissing, Idle, []action{doFail}, "known at once, no time-out"},
	{Resolving, inState0, Half, []action{doAddress, doOffer}, "the peer was first; its STATE has the address"},
	{Resolving, inState1Ack, Resolving, nil, "cannot be: it answers a STATE of ours, and we sent none"},
	{Resolving, inState1, Resolving, nil, "cannot be: it answers a STATE of ours, and we sent none"},
	{Resolving, inStale, Resolving, []action{doReject}, "as in Idle: the peer opens above it, or we do"},
	{Resolving, inSegment, Resolving, nil, "cannot be: of this generation it is a left one"},
	{Resolving, inAck, Resolving, nil, "cannot be: of this generation it is a left one"},
	{Resolving, inFinGrant, Resolving, []action{doGrant}, "as in Idle"},
	{Resolving, inFinRefuse, Resolving, []action{doRefuse}, "as in Idle"},
	{Resolving, inFinAck, Resolving, nil, "cannot be: of this generation it is a left one"},
	{Resolving, inFinNak, Resolving, nil, "cannot be: of this generation it is a left one"},
	{Resolving, inReject, Wait, []action{doAddress, doLeave, doOpen}, "REJECT has the address of the current epoch"},
	{Resolving, inResend, Resolving, []action{doAsk, doBack}, "the agent's answer was older than what we know"},
	{Resolving, inGiveUp, Resolving, nil, "cannot be: the agent answers when it can"},
	{Resolving, inRest, Resolving, nil, "somebody wants it open"},

	{Wait, inWant, Wait, nil, "cannot be: the address is known"},
	{Wait, inWantKnown, Wait, nil, "stays staged"},
	{Wait, inFound, Wait, []action{doAddress}, "the next resend goes there"},
	{Wait, inMissing, Idle, []action{doFail}, ""},
	{Wait, inState0, Half, []action{doAddress, doOffer}, "crossing: each answers the other, no winner is needed"},
	{Wait, inState1Ack, Up, []action{doAddress, doUp, doConfirm},
		"both have the address; the peer may send when it has our answer"},
	{Wait, inState1, Up, []action{doAddress, doUp, doConfirm}, "cannot be, but says the same"},
	{Wait, inStale, Wait, nil, "an older generation; our STATE will move the peer to this one"},
	{Wait, inSegment, Wait, nil, "cannot be: the peer is not Up before it has our HY"},
	{Wait, inAck, Wait, nil, "cannot be: as above"},
	{Wait, inFinGrant, Wait, nil, "cannot be: as above"},
	{Wait, inFinRefuse, Wait, nil, "cannot be: as above"},
	{Wait, inFinAck, Wait, nil, "cannot be: we sent no FIN in this generation"},
	{Wait, inFinNak, Wait, nil, "cannot be: as above"},
	{Wait, inReject, Wait, []action{doAddress, doLeave, doOpen},
		"the peer has used this generation up: open the one above"},
	{Wait, inResend, Wait, []action{doResend}, ""},
	{Wait, inGiveUp, Idle, []action{doFail}, ""},
	{Wait, inRest, Wait, nil, "somebody wants it open"},

	{Half, inWant, Half, nil, "cannot be: the address is known"},
	{Half, inWantKnown, Half, nil, "stays staged"},
	{Half, inFound, Half, []action{doAddress}, "the next resend goes there"},
	{Half, inMissing, Idle, []action{doFail}, ""},
	{Half, inState0, Half, []action{doRepeat}, "our answer was lost, or this is a duplicate"},
	{Half, inState1Ack, Up, []action{doUp}, "crossing; if our HY was lost, the peer's timer asks for it"},
	{Half, inState1, Up, []action{doUp}, "the peer has our HY and is Up"},
	{Half, inStale, Half, nil, "an older generation"},
	{Half, inSegment, Up, []action{doUp, doTake}, "only a peer that is Up sends data"},
	{Half, inAck, Up, []action{doUp, doTake}, "only a peer that is Up acknowledges"},
	{Half, inFinGrant, Idle, []action{doUp, doGrant, doClose}, "only a peer that is Up closes"},
	{Half, inFinRefuse, Up, []action{doUp, doRefuse}, "the peer is Up and we have something to say"},
	{Half, inFinAck, Half, nil, "cannot be: we sent no FIN in this generation"},
	{Half, inFinNak, Half, nil, "cannot be: as above"},
	{Half, inReject, Idle, []action{doLeave, doReset}, "the peer gave up; what is staged opens the next generation"},
	{Half, inResend, Half, []action{doResend}, ""},
	{Half, inGiveUp, Idle, []action{doFail}, ""},
	{Half, inRest, Half, nil, "the peer wants it open"},

	{Up, inWant, Up, nil, "cannot be: the address is known"},
	{Up, inWantKnown, Up, nil, "goes into the window"},
	{Up, inFound, Up, []action{doAddress}, "the next resend goes there"},
	{Up, inMissing, Idle, []action{doFail}, "the agent was asked because segments were not acknowledged"},
	{Up, inState0, Up, []action{doConfirm}, "a duplicate, or the peer lost our answer"},
	{Up, inState1Ack, Up, []action{doConfirm}, "the peer is Half and lost our answer"},
	{Up, inState1, Up, nil, "answers a duplicate of ours"},
	{Up, inStale, Up, nil, "an older generation"},
	{Up, inSegment, Up, []action{doTake}, ""},
	{Up, inAck, Up, []action{doTake}, ""},
	{Up, inFinGrant, Idle, []action{doGrant, doClose}, "all of ours is acknowledged and all of theirs is here"},
	{Up, inFinRefuse, Up, []action{doRefuse}, "something is under way, or an old attempt"},
	{Up, inFinAck, Up, nil, "cannot be: a FINACK means that the peer has left"},
	{Up, inFinNak, Up, nil, "a duplicate"},
	{Up, inReject, Idle, []action{doLeave, doReset}, "the connection failed at the peer"},
	{Up, inResend, Up, []action{doResend}, "the oldest segment again, or a question when the window is shut"},
	{Up, inGiveUp, Idle, []action{doFail}, ""},
	{Up, inRest, Closing, []action{doFin}, ""},

	{Closing, inWant, Closing, nil, "cannot be: the address is known"},
	{Closing, inWantKnown, Closing, nil, "stays staged until the peer has decided"},
	{Closing, inFound, Closing, []action{doAddress}, "the next resend goes there"},
	{Closing, inMissing, Idle, []action{doFail}, ""},
	{Closing, inState0, Closing, []action{doConfirm}, "a duplicate"},
	{Closing, inState1Ack, Closing, []action{doConfirm}, "the peer is still Half"},
	{Closing, inState1, Closing, nil, "answers a duplicate of ours"},
	{Closing, inStale, Closing, nil, "an older generation"},
	{Closing, inSegment, Closing, []action{doTake}, "the peer sent it before it had our FIN, and will refuse that"},
	{Closing, inAck, Closing, []action{doTake}, ""},
	{Closing, inFinGrant, Idle, []action{doGrant, doClose}, "crossing: both grant"},
	{Closing, inFinRefuse, Closing, []action{doRefuse}, "an old attempt"},
	{Closing, inFinAck, Idle, []action{doClose}, "what was staged meanwhile opens the next generation"},
	{Closing, inFinNak, Up, []action{doBack}, "the peer has something under way"},
	{Closing, inReject, Idle, []action{doLeave, doClose}, "the peer has left; nothing of ours was under way"},
	{Closing, inResend, Closing, []action{doResend}, ""},
	{Closing, inGiveUp, Idle, []action{doFail}, "even if nothing is lost: the owner should know"},
	{Closing, inRest, Closing, nil, "it is about to"},
}

// index finds the row of a state and an input.
var index = indexed(table)

func indexed(rows []row) (x [states][inputs]*row) {
	for i := range rows {
		x[rows[i].state][rows[i].input] = &rows[i]
	}
	return x
}

// rules are what is looked at before the table, in lines of docs/dev/states.md.
var rules = []string{
	"A packet for another epoch of this rank: no state changes. If it is for an older epoch and asks\n" +
		"for an answer, answer REJECT with the rank's epoch and tuple, to the address that it came from.\n" +
		"STATE, SEGMENT, FIN, and the ACK that probes a shut window ask for an answer.",
	"A packet of an older epoch of the peer: ignore.",
	"A packet or an agent's answer that names a newer epoch of the peer, which is its next program:\n" +
		"messages that were begun and not acknowledged fail as restarted; messages that are only staged\n" +
		"stay. Forget the address; generation 0; go on as Idle (Resolving: ask again).",
	"A packet or an agent's answer that names a newer start of the peer, or the floor, which is the\n" +
		"agent's word that older epochs do not count any more: Renewed. All messages that are not\n" +
		"acknowledged fail as restarted, also if they are only staged. Forget the address; generation 0;\n" +
		"go on as Idle.",
	"STATE without HY of a newer generation: the peer has left this one. Messages that were begun and\n" +
		"not acknowledged fail as reset; take over the generation; go on as Idle.",
	"Anything else of a newer generation: cannot be, since the peer needs our HY first; ignore.",
	"An older generation, and in Idle and Resolving also the present one, which has ended: \"left\n" +
		"generation\" if it asks for an answer, else ignore. FIN of the present generation is decided in\n" +
		"these states too.",
	"REJECT counts if it names our generation or a newer one.",
	"FIN is granted if three things hold. Nothing of ours is staged or unacknowledged (in Closing:\n" +
		"whatever is staged). Exactly the messages that it counts have been delivered. The owner has not\n" +
		"made a stream on this connection meanwhile: a FIN may be older than what has come since. An\n" +
		"attempt that was decided once is decided the same way ever after; older attempts were refused.",
	"Rest is looked at only if nothing of ours is staged or unacknowledged.",
	"In Idle with something staged or a connection wished for: \"send\", at the end of the step.",
	"Timers: 2, 4, 8 and so on up to 250 ms with a quarter of jitter. If twice the recent time of an\n" +
		"answer is longer, it is used instead, up to 4 s. Segments: by the measured round trip, 4 to 250\n" +
		"ms.",
	"After 3 resends without an answer, and 200 ms at the soonest, ask the agent, fresh, and again each\n" +
		"second. The rank itself answers such a question, through its agent. After 30 s without progress\n" +
		"and 30 such answers the connection fails. A rank that is stopped sends none, and is waited for.\n" +
		"Resolving has no timer: the agent parks a question as long as it takes.",
}
