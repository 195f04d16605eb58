package upgrade

func in(s ...State) []State { return s }

// Reasons that rows share.
const (
	noAttempt  = "cannot be: the token is of no attempt"
	noStream   = "cannot be: there is no stream"
	itDials    = "cannot be: this state is of a rank that dials"
	itOffers   = "cannot be: this state is of a rank that offers"
	haveStream = "cannot be: a message moves to the stream that there is"
	notOffered = "cannot be: an offer is made in Offered only, and at once"
	takenFirst = "cannot be: the rank that dials sends TAKEN first"
	nothingCut = "cannot be: no stream was stopped"
	known      = "it is known"
	notTaken   = "cannot be: the rank that offers does not use the stream before TAKEN"
	ended      = "the pair has ended"
)

// table is all of it. docs/dev/upgrade.md is made from it.
var table = []row{
	{in(None), inNeed, Wanted, []action{doAsk}, "the higher rank makes the offer, whichever wants the stream"},
	{in(Wanted, Dialing), inNeed, same, nil, "it is under way"},
	{in(Offered, Accepted), inNeed, same, nil, itOffers},
	{in(Barred), inNeed, same, nil, "cannot be: datagrams carry everything"},
	{in(Open, Leaving, Left, Broken), inNeed, same, nil, haveStream},
	{in(Stopping, Resuming), inNeed, same, nil, "cannot be: messages wait"},

	{in(None), inNeedOffer, Offered, []action{doOffer}, ""},
	{in(Offered, Accepted), inNeedOffer, same, nil, "it is under way"},
	{in(Wanted, Dialing), inNeedOffer, same, nil, itDials},
	{in(Barred), inNeedOffer, same, nil, "cannot be: datagrams carry everything"},
	{in(Open, Leaving, Left, Broken), inNeedOffer, same, nil, haveStream},
	{in(Stopping, Resuming), inNeedOffer, same, nil, "cannot be: messages wait"},

	{in(None), inWant, Offered, []action{doOffer}, ""},
	{in(Barred), inWant, Offered, []action{doOffer}, "the peer has counted fewer failures"},
	{in(Offered), inWant, same, nil, "WANT and OFFER have crossed, or it is sent again"},
	{in(Accepted, Stopping, Resuming), inWant, same, nil, "WANT is older than the stream"},
	{in(Open, Leaving, Left, Broken), inWant, same, nil, "cannot be: the peer has sent TAKEN"},
	{in(Wanted, Dialing), inWant, same, nil, itDials},

	{in(None, Barred, Wanted), inOffer, Dialing, []action{doDial}, ""},
	{in(Dialing), inOffer, Dialing, []action{doDial}, "the older attempt has ended at the peer"},
	{in(Open, Leaving, Left), inOffer, same, nil,
		"cannot be: the peer has the stream too, or the connection would have ended"},
	{in(Offered, Accepted), inOffer, same, nil, itOffers},
	{in(Broken), inOffer, same, nil, "cannot be: the peer has a stream that failed, too"},
	{in(Stopping, Resuming), inOffer, same, nil, "cannot be: the peer sends RESUME, or the last RETURNED, first"},

	{in(Offered), inOfferMade, same, []action{doKeep, doAsk}, ""},
	{in(None, Barred, Wanted, Dialing, Accepted, Open, Leaving, Left, Broken, Stopping, Resuming), inOfferMade, same,
		nil, notOffered},
	{in(Offered), inOfferFailed, None, []action{doGiveUp}, "the peer need not wait for an offer"},
	{in(None, Barred, Wanted, Dialing, Accepted, Open, Leaving, Left, Broken, Stopping, Resuming), inOfferFailed, same,
		nil, notOffered},

	{in(Dialing), inConnected, Open, []action{doTaken, doStream}, ""},
	{in(Offered, Accepted), inConnected, same, nil, itOffers},
	{in(None, Barred, Wanted, Open, Leaving, Left, Broken, Stopping, Resuming), inConnected, same, nil, noAttempt},
	{in(Offered), inAccepted, Accepted, nil, "the peer may have given up, or will, before it gets our proof"},
	{in(Dialing), inAccepted, same, nil, itDials},
	{in(None, Barred, Wanted, Accepted, Open, Leaving, Left, Broken, Stopping, Resuming), inAccepted, same, nil,
		noAttempt},
	{in(Accepted), inTaken, Open, []action{doStream}, ""},
	{in(Dialing), inTaken, same, nil, itDials},
	{in(Offered), inTaken, same, nil, "cannot be: the peer does not have our proof"},
	{in(None, Barred, Wanted), inTaken, same, nil, noAttempt},
	{in(Open, Leaving, Left, Broken), inTaken, same, nil, "cannot be: it is sent once"},
	{in(Stopping, Resuming), inTaken, same, nil, "it is older than the failure"},

	{in(Dialing), inDialFailed, None, []action{doGiveUp}, "the peer waits to be dialled"},
	{in(Offered, Accepted), inDialFailed, same, nil, itOffers},
	{in(None, Barred, Wanted, Open, Leaving, Left, Broken, Stopping, Resuming), inDialFailed, same, nil, noAttempt},

	{in(None, Wanted), inGiveUp, None, []action{doFail}, "the peer could not make an offer"},
	{in(Barred), inGiveUp, same, []action{doFail}, "the peer could not make an offer, once more"},
	{in(Offered), inGiveUp, None, []action{doFail}, "the peer could not dial"},
	{in(Accepted, Stopping, Resuming), inGiveUp, None, []action{doFail, doClose}, "the peer did not get our proof"},
	{in(Dialing), inGiveUp, same, nil, "cannot be: a rank that has made an offer does not give up"},
	{in(Open, Leaving, Left, Broken), inGiveUp, same, nil,
		"cannot be: a rank that has the stream does not give up"},

	{in(Wanted, Offered, Dialing), inUnanswered, same, []action{doAsk}, "the peer may be another epoch"},
	{in(None, Barred), inUnanswered, same, nil, "cannot be: nothing was asked"},
	{in(Accepted, Open, Leaving, Left, Broken, Stopping, Resuming), inUnanswered, same, nil,
		"cannot be: there is a stream, or it has ended"},

	{in(Open), inRest, Leaving, []action{doLeave}, ""},
	{in(Wanted, Offered, Dialing, Accepted), inRest, same, nil, "what is on its way is waited for"},
	{in(Leaving, Left, Stopping, Resuming), inRest, same, nil, "it is about to"},
	{in(None, Barred), inRest, same, nil, "cannot be: the connection itself is asked"},
	{in(Broken), inRest, same, nil, ended},

	{in(Open), inLeave, Left, []action{doLeave, doLeft}, ""},
	{in(Leaving), inLeave, Left, []action{doLeft}, "both have found it idle"},
	{in(Stopping, Resuming), inLeave, same, []action{doLeft}, "if we have sent LEAVE, the peer may need no RESUME"},
	{in(Offered, Accepted), inLeave, same, nil, takenFirst},
	{in(Dialing), inLeave, same, nil, notTaken},
	{in(None, Barred, Wanted), inLeave, same, nil, noAttempt},
	{in(Left), inLeave, same, nil, "cannot be: it was received"},
	{in(Broken), inLeave, same, nil, ended},

	{in(Open), inLeaveBusy, same, []action{doStay}, ""},
	{in(Leaving), inLeaveBusy, Left, []action{doLeft}, "the sender has to wait: LEAVE was sent"},
	{in(Left), inLeaveBusy, same, nil, "cannot be: it was received"},
	{in(None, Barred, Wanted, Offered, Dialing, Accepted, Broken, Stopping, Resuming), inLeaveBusy, same, nil,
		"cannot be: it is LEAVE, without a stream"},

	{in(Stopping, Resuming), inStay, same, []action{doStayed}, ""},
	{in(Leaving), inStay, Open, []action{doStayed, doNotify},
		"our end mark may be on its way: RETURNED comes all the same"},
	{in(None, Barred, Wanted), inStay, same, nil, noAttempt},
	{in(Offered, Dialing, Accepted, Open), inStay, same, nil, "cannot be: we did not send LEAVE"},
	{in(Left), inStay, same, nil, "cannot be: the peer sent LEAVE"},
	{in(Broken), inStay, same, nil, ended},

	{in(Left), inBothBack, None, []action{doClose, doForget, doNotify, doIdle}, ""},
	{in(Stopping, Resuming), inBothBack, None, []action{doClose, doForget, doNotify, doIdle},
		"both had sent LEAVE: the peer needs no RESUME, and has no stream to answer it for"},
	{in(None, Barred, Wanted, Offered, Dialing, Accepted, Open, Leaving, Broken), inBothBack, same, nil,
		"cannot be: it is asked when both have sent LEAVE"},

	{in(Open, Leaving, Left), inBroken, Broken, []action{doBreak, doAlarm},
		"a stream that only receives would not notice"},
	{in(Stopping, Resuming), inBroken, Broken, []action{doBreak, doAlarm}, "the peer does not keep what it writes"},
	{in(Broken), inBroken, same, []action{doAlarm}, "both sides have found it; here, it may have looked like an end"},
	{in(Offered, Accepted), inBroken, same, nil, takenFirst},
	{in(Dialing), inBroken, same, nil, notTaken},
	{in(None, Barred, Wanted), inBroken, same, nil, noAttempt},

	{in(Open, Leaving, Left), inLost, Broken, []action{doBroken, doAlarm},
		"the peer may wait for what was lost, and so may we"},
	{in(None, Barred, Wanted, Offered, Dialing), inLost, same, nil, noStream},
	{in(Accepted), inLost, same, nil, "cannot be: nothing reads it or writes to it"},
	{in(Broken), inLost, same, nil, "cannot be: the pair is known to have ended"},
	{in(Stopping, Resuming), inLost, same, nil, "cannot be: messages are kept"},

	{in(Accepted, Open, Leaving, Left), inCut, Stopping, []action{doStop},
		"what has come by it is counted before the peer is told"},
	{in(Stopping, Resuming), inCut, same, nil, known},
	{in(None, Barred, Wanted, Offered, Dialing), inCut, same, nil, noStream},
	{in(Broken), inCut, same, nil, "cannot be: the pair is known to have ended"},
	{in(Open, Leaving, Left), inResume, Stopping, []action{doPeers, doStop}, "the stream has failed at the peer"},
	{in(Stopping, Resuming), inResume, same, []action{doPeers}, ""},
	{in(Dialing), inResume, None, []action{doResume, doForget, doNotify},
		"the peer has proved itself, and the stream has failed there before we knew of it"},
	{in(Offered), inResume, same, nil, "cannot be: the peer does not have our proof"},
	{in(Accepted), inResume, same, nil, takenFirst},
	{in(None, Barred, Wanted), inResume, same, nil, noAttempt},
	{in(Broken), inResume, same, nil, ended},
	{in(Stopping), inStopped, Resuming, []action{doResume}, ""},
	{in(None, Barred, Wanted, Offered, Dialing, Accepted, Open, Leaving, Left, Broken, Resuming), inStopped, same, nil,
		nothingCut},
	{in(Resuming), inResumed, None, []action{doAgain, doClose, doForget, doNotify}, "in the order of our messages"},
	{in(None, Barred, Wanted, Offered, Dialing, Accepted, Open, Leaving, Left, Broken, Stopping), inResumed, same, nil,
		"cannot be: it is asked in Resuming only"},

	{in(Barred), inMoved, None, []action{doPardon, doNotify}, "by the other network it may work"},
	{in(None, Wanted, Offered, Dialing, Accepted, Open, Leaving, Left, Broken, Stopping, Resuming), inMoved, same,
		[]action{doPardon}, ""},
	{in(Open, Leaving, Left), inPeerEnded, Broken, []action{doEnd}, "the agents will tell those ranks that wait"},
	{in(None, Barred, Wanted, Offered, Dialing), inPeerEnded, same, nil, noStream},
	{in(Accepted), inPeerEnded, same, nil, "cannot be: nothing reads it or writes to it"},
	{in(Broken), inPeerEnded, same, nil, "cannot be: the pair is known to have ended"},
	{in(Stopping, Resuming), inPeerEnded, same, nil, "cannot be: its reader says that it has stopped"},

	{in(None), inTried, Barred, nil, "datagrams carry everything"},
	{in(Barred, Wanted, Offered, Dialing, Accepted, Open, Leaving, Left, Broken, Stopping, Resuming), inTried, same,
		nil, "cannot be: it is asked in None only"},

	{in(None, Wanted, Offered, Dialing), inRested, same, []action{doPardon},
		"what was asked may be staged for the next connection"},
	{in(Barred), inRested, None, []action{doPardon}, "in the next connection it is tried again"},
	{in(Accepted, Open, Leaving, Left, Broken, Stopping, Resuming), inRested, None,
		[]action{doLose, doClose, doForget, doPardon},
		"the peer has left"},

	{in(None, Barred, Wanted, Offered, Dialing), inReset, None, []action{doForget, doPardon}, ""},
	{in(Accepted, Open, Leaving, Left, Broken, Stopping, Resuming), inReset, None,
		[]action{doClose, doForget, doPardon}, ""},

	{in(OutDatagrams), inMove, OutStream, []action{doSwitch}, "in the order of our messages"},
	{in(OutStream, OutMarked), inMove, same, nil, "cannot be: it has moved"},
	{in(OutStream), inMark, OutMarked, []action{doMark}, ""},
	{in(OutDatagrams), inMark, same, nil, "nothing of ours is on the stream"},
	{in(OutMarked), inMark, same, nil, "the mark is left of a LEAVE that was answered with STAY"},
	{in(OutMarked), inReturned, OutDatagrams, []action{doNotify}, ""},
	{in(OutDatagrams, OutStream), inReturned, same, nil, "cannot be: there is no end mark to be read"},
	{in(OutDatagrams, OutStream, OutMarked), inOver, OutDatagrams, nil, ""},

	{in(InDatagrams), inSwitch, InStream, []action{doRead}, ""},
	{in(InDatagrams), inMissed, InStream, nil, "what is on the stream will be sent again"},
	{in(InStream), inMissed, same, nil, "cannot be: the peer waits for RETURNED before it moves again"},
	{in(InStream), inSwitch, same, nil, "cannot be: the peer waits for RETURNED before it moves again"},
	{in(InStream), inEndMark, InDatagrams, []action{doReturned}, ""},
	{in(InDatagrams), inEndMark, same, nil, "cannot be: nobody reads"},
	{in(InDatagrams, InStream), inOver, InDatagrams, nil, ""},
}

// index finds the row of a state and an input, with the next state filled in.
var index = indexed(table)

func indexed(rows []row) (x [states][inputs]*row) {
	for _, r := range rows {
		for _, s := range r.from {
			one := r
			one.from = in(s)
			if r.next == same {
				one.next = s
			}
			x[s][r.input] = &one
		}
	}
	return x
}
