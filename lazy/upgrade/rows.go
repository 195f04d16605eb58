package upgrade

import "slices"

func in(s ...State) []State { return s }

// except returns all states of the region stream except some.
func except(some ...State) (rest []State) {
	for s := range OutDatagrams {
		if !slices.Contains(some, s) {
			rest = append(rest, s)
		}
	}
	return rest
}

func on(i ...input) []input { return i }

// Reasons that rows share.
const (
	noAttempt  = "cannot be: the token is of no attempt"
	itDials    = "cannot be: this state is of a rank that dials"
	takenFirst = "cannot be: the rank that dials sends TAKEN first"
)

// table is all of it. docs/dev/upgrade.md is made from it.
var table = []row{
	{in(None), on(inNeed), Wanted, []action{doAsk}, "the higher rank makes the offer, whichever wants the stream"},
	{in(Wanted, Dialing), on(inNeed), same, nil, "it is under way"},
	{in(Offered, Accepted), on(inNeed, inOffer, inConnected, inDialFailed), same, nil,
		"cannot be: this state is of a rank that offers"},
	{in(Barred), on(inNeed, inNeedOffer), same, nil, "cannot be: datagrams carry everything"},
	{in(Open, Leaving, Left, Broken), on(inNeed, inNeedOffer), same, nil,
		"cannot be: a message moves to the stream that there is"},
	{in(Stopping, Resuming), on(inNeed, inNeedOffer), same, nil, "cannot be: messages wait"},

	{in(None), on(inNeedOffer), Offered, []action{MakeOffer}, ""},
	{in(Offered, Accepted), on(inNeedOffer), same, nil, "it is under way"},
	{in(Wanted, Dialing), on(inNeedOffer, inWant), same, nil, itDials},

	{in(None), on(inWant), Offered, []action{MakeOffer}, ""},
	{in(Barred), on(inWant), Offered, []action{MakeOffer}, "the peer has counted fewer failures"},
	{in(Offered), on(inWant), same, nil, "WANT and OFFER have crossed, or it is sent again"},
	{in(Accepted, Stopping, Resuming), on(inWant), same, nil, "WANT is older than the stream"},
	{in(Open, Leaving, Left, Broken), on(inWant), same, nil, "cannot be: the peer has sent TAKEN"},

	{in(None, Barred, Wanted), on(inOffer), Dialing, []action{doDial}, ""},
	{in(Dialing), on(inOffer), Dialing, []action{doDial}, "the older attempt has ended at the peer"},
	{in(Open, Leaving, Left), on(inOffer), same, nil,
		"cannot be: the peer has the stream too, or the connection would have ended"},
	{in(Broken), on(inOffer), same, nil, "cannot be: the peer has a stream that failed, too"},
	{in(Stopping, Resuming), on(inOffer), same, nil, "cannot be: the peer sends RESUME, or the last RETURNED, first"},

	{in(Offered), on(inOfferMade), same, []action{doKeep, doAsk}, ""},
	{except(Offered), on(inOfferMade, inOfferFailed), same, nil,
		"cannot be: an offer is made in Offered only, and at once"},
	{in(Offered), on(inOfferFailed), None, []action{doGiveUp}, "the peer need not wait for an offer"},

	{in(Dialing), on(inConnected), Open, []action{Taken, doStream}, ""},
	{except(Offered, Dialing, Accepted), on(inConnected, inDialFailed), same, nil, noAttempt},
	{in(Offered), on(inAccepted), Accepted, nil, "the peer may have given up, or will, before it gets our proof"},
	{in(Dialing), on(inAccepted, inTaken), same, nil, itDials},
	{except(Offered, Dialing), on(inAccepted), same, nil, noAttempt},
	{in(Accepted), on(inTaken), Open, []action{doStream}, ""},
	{in(Offered), on(inTaken, inResume), same, nil, "cannot be: the peer does not have our proof"},
	{in(None, Barred, Wanted), on(inTaken, inLeave, inStay, inBroken, inResume), same, nil, noAttempt},
	{in(Open, Leaving, Left, Broken), on(inTaken), same, nil, "cannot be: it is sent once"},
	{in(Stopping, Resuming), on(inTaken), same, nil, "it is older than the failure"},

	{in(Dialing), on(inDialFailed), None, []action{doGiveUp}, "the peer waits to be dialled"},

	{in(None, Wanted), on(inGiveUp), None, []action{doFail}, "the peer could not make an offer"},
	{in(Barred), on(inGiveUp), same, []action{doFail}, "the peer could not make an offer, once more"},
	{in(Offered), on(inGiveUp), None, []action{doFail}, "the peer could not dial"},
	{in(Accepted, Stopping, Resuming), on(inGiveUp), None, []action{doFail, Close}, "the peer did not get our proof"},
	{in(Dialing), on(inGiveUp), same, nil, "cannot be: a rank that has made an offer does not give up"},
	{in(Open, Leaving, Left, Broken), on(inGiveUp), same, nil,
		"cannot be: a rank that has the stream does not give up"},

	{in(Wanted, Offered, Dialing), on(inUnanswered), same, []action{doAsk}, "the peer may be another epoch"},
	{in(None, Barred), on(inUnanswered), same, nil, "cannot be: nothing was asked"},
	{in(Accepted, Open, Leaving, Left, Broken, Stopping, Resuming), on(inUnanswered), same, nil,
		"cannot be: there is a stream, or it has ended"},

	{in(Open), on(inRest), Leaving, []action{doLeave}, ""},
	{in(Wanted, Offered, Dialing, Accepted), on(inRest), same, nil, "what is on its way is waited for"},
	{in(Leaving, Left, Stopping, Resuming), on(inRest), same, nil, "it is about to"},
	{in(None, Barred), on(inRest), same, nil, "cannot be: the connection itself is asked"},
	{in(Broken), on(inRest, inLeave, inStay, inResume), same, nil, "the pair has ended"},

	{in(Open), on(inLeave), Left, []action{doLeave, doLeft}, ""},
	{in(Leaving), on(inLeave), Left, []action{doLeft}, "both have found it idle"},
	{in(Stopping, Resuming), on(inLeave), same, []action{doLeft}, "if we have sent LEAVE, the peer may need no RESUME"},
	{in(Offered, Accepted), on(inLeave, inBroken), same, nil, takenFirst},
	{in(Dialing), on(inLeave, inBroken), same, nil,
		"cannot be: the rank that offers does not use the stream before TAKEN"},
	{in(Left), on(inLeave, inLeaveBusy), same, nil, "cannot be: it was received"},

	{in(Open), on(inLeaveBusy), same, []action{Stay}, ""},
	{in(Leaving), on(inLeaveBusy), Left, []action{doLeft}, "the sender has to wait: LEAVE was sent"},
	{except(Open, Leaving, Left), on(inLeaveBusy), same, nil, "cannot be: it is LEAVE, without a stream"},

	{in(Stopping, Resuming), on(inStay), same, []action{doStayed}, ""},
	{in(Leaving), on(inStay), Open, []action{doStayed, Notify},
		"our end mark may be on its way: RETURNED comes all the same"},
	{in(Offered, Dialing, Accepted, Open), on(inStay), same, nil, "cannot be: we did not send LEAVE"},
	{in(Left), on(inStay), same, nil, "cannot be: the peer sent LEAVE"},

	{in(Left), on(inBothBack), None, []action{Close, doForget, Notify, Idle}, ""},
	{in(Stopping, Resuming), on(inBothBack), None, []action{Close, doForget, Notify, Idle},
		"both had sent LEAVE: the peer needs no RESUME, and has no stream to answer it for"},
	{except(Left, Stopping, Resuming), on(inBothBack), same, nil, "cannot be: it is asked when both have sent LEAVE"},

	{in(Open, Leaving, Left), on(inBroken), Broken, []action{doBreak, doAlarm},
		"a stream that only receives would not notice"},
	{in(Stopping, Resuming), on(inBroken), Broken, []action{doBreak, doAlarm}, "the peer does not keep what it writes"},
	{in(Broken), on(inBroken), same, []action{doAlarm},
		"both sides have found it; here, it may have looked like an end"},

	{in(Open, Leaving, Left), on(inLost), Broken, []action{Broke, doAlarm},
		"the peer may wait for what was lost, and so may we"},
	{in(None, Barred, Wanted, Offered, Dialing), on(inLost, inCut, inPeerEnded), same, nil,
		"cannot be: there is no stream"},
	{in(Accepted), on(inLost, inPeerEnded), same, nil, "cannot be: nothing reads it or writes to it"},
	{in(Broken), on(inLost, inCut, inPeerEnded), same, nil, "cannot be: the pair is known to have ended"},
	{in(Stopping, Resuming), on(inLost), same, nil, "cannot be: messages are kept"},

	{in(Accepted, Open, Leaving, Left), on(inCut), Stopping, []action{Stop},
		"what has come by it is counted before the peer is told"},
	{in(Stopping, Resuming), on(inCut), same, nil, "it is known"},
	{in(Open, Leaving, Left), on(inResume), Stopping, []action{doPeers, Stop}, "the stream has failed at the peer"},
	{in(Stopping, Resuming), on(inResume), same, []action{doPeers}, ""},
	{in(Dialing), on(inResume), None, []action{doResume, doForget, Notify},
		"the peer has proved itself, and the stream has failed there before we knew of it"},
	{in(Accepted), on(inResume), same, nil, takenFirst},
	{in(Stopping), on(inStopped), Resuming, []action{doResume}, ""},
	{except(Stopping), on(inStopped), same, nil, "cannot be: no stream was stopped"},
	{in(Resuming), on(inResumed), None, []action{doAgain, Close, doForget, Notify}, "in the order of our messages"},
	{except(Resuming), on(inResumed), same, nil, "cannot be: it is asked in Resuming only"},

	{in(Barred), on(inMoved), None, []action{doPardon, Notify}, "by the other network it may work"},
	{except(Barred), on(inMoved), same, []action{doPardon}, ""},
	{in(Open, Leaving, Left), on(inPeerEnded), Broken, []action{doEnd}, "the agents will tell those ranks that wait"},
	{in(Stopping, Resuming), on(inPeerEnded), same, nil, "cannot be: its reader says that it has stopped"},

	{in(None), on(inTried), Barred, nil, "datagrams carry everything"},
	{except(None), on(inTried), same, nil, "cannot be: it is asked in None only"},

	{in(None, Wanted, Offered, Dialing), on(inRested), same, []action{doPardon},
		"what was asked may be staged for the next connection"},
	{in(Barred), on(inRested), None, []action{doPardon}, "in the next connection it is tried again"},
	{in(Accepted, Open, Leaving, Left, Broken, Stopping, Resuming), on(inRested), None,
		[]action{doLose, Close, doForget, doPardon}, "the peer has left"},

	{in(None, Barred, Wanted, Offered, Dialing), on(inReset), None, []action{doForget, doPardon}, ""},
	{in(Accepted, Open, Leaving, Left, Broken, Stopping, Resuming), on(inReset), None,
		[]action{Close, doForget, doPardon}, ""},

	{in(OutDatagrams), on(inMove), OutStream, []action{Switch}, "in the order of our messages"},
	{in(OutStream, OutMarked), on(inMove), same, nil, "cannot be: it has moved"},
	{in(OutStream), on(inMark), OutMarked, []action{Mark}, ""},
	{in(OutDatagrams), on(inMark), same, nil, "nothing of ours is on the stream"},
	{in(OutMarked), on(inMark), same, nil, "the mark is left of a LEAVE that was answered with STAY"},
	{in(OutMarked), on(inReturned), OutDatagrams, []action{Notify}, ""},
	{in(OutDatagrams, OutStream), on(inReturned), same, nil, "cannot be: there is no end mark to be read"},
	{in(OutDatagrams, OutStream, OutMarked), on(inOver), OutDatagrams, nil, ""},

	{in(InDatagrams), on(inSwitch), InStream, []action{Read}, ""},
	{in(InDatagrams), on(inMissed), InStream, nil, "what is on the stream will be sent again"},
	{in(InStream), on(inMissed, inSwitch), same, nil, "cannot be: the peer waits for RETURNED before it moves again"},
	{in(InStream), on(inEndMark), InDatagrams, []action{Returned}, ""},
	{in(InDatagrams), on(inEndMark), same, nil, "cannot be: nobody reads"},
	{in(InDatagrams, InStream), on(inOver), InDatagrams, nil, ""},
}

// index finds the row of a state and an input, with the next state filled in.
var index = indexed(table)

func indexed(rows []row) (x [states][inputs]*row) {
	for _, r := range rows {
		for _, s := range r.from {
			for _, i := range r.inputs {
				one := r
				one.from, one.inputs = in(s), on(i)
				if r.next == same {
					one.next = s
				}
				x[s][i] = &one
			}
		}
	}
	return x
}
