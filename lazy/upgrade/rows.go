package upgrade

func in(s ...State) []State { return s }

// Reasons that rows share.
const (
	noAttempt   = "cannot be: the token is of no attempt"
	noStream    = "cannot be: there is no stream"
	itDials     = "cannot be: this state is of a rank that dials"
	itOffers    = "cannot be: this state is of a rank that offers"
	haveStream  = "cannot be: a message moves to the stream that there is"
	notOffered  = "cannot be: an offer is made in Offered only, and at once"
	offersFirst = "cannot be: the rank that offers has the stream first"
	ended       = "the pair has ended"
)

// table is all of it. docs/upgrade.md is made from it.
var table = []row{
	{in(None), inNeed, Wanted, []action{doAsk}, "the higher rank makes the offer, whichever wants the stream"},
	{in(Wanted, Dialing), inNeed, same, nil, "it is under way"},
	{in(Offered), inNeed, same, nil, itOffers},
	{in(Barred), inNeed, same, nil, "cannot be: datagrams carry everything"},
	{in(Open, Leaving, Left, Broken), inNeed, same, nil, haveStream},

	{in(None), inNeedOffer, Offered, []action{doOffer}, ""},
	{in(Offered), inNeedOffer, same, nil, "it is under way"},
	{in(Wanted, Dialing), inNeedOffer, same, nil, itDials},
	{in(Barred), inNeedOffer, same, nil, "cannot be: datagrams carry everything"},
	{in(Open, Leaving, Left, Broken), inNeedOffer, same, nil, haveStream},

	{in(None), inWant, Offered, []action{doOffer}, ""},
	{in(Barred), inWant, Offered, []action{doOffer}, "the peer has counted fewer failures"},
	{in(Offered), inWant, same, nil, "WANT and OFFER have crossed, or it is said again"},
	{in(Open, Leaving), inWant, same, nil, "WANT is older than the stream"},
	{in(Left), inWant, same, nil, "cannot be: the peer had the stream when it said LEAVE"},
	{in(Wanted, Dialing), inWant, same, nil, itDials},
	{in(Broken), inWant, same, []action{doRefuse}, "it did not get our proof, and asks again"},

	{in(None, Barred, Wanted), inOffer, Dialing, []action{doDial}, ""},
	{in(Dialing), inOffer, Dialing, []action{doDial}, "the older attempt has ended at the peer"},
	{in(Open, Leaving, Left), inOffer, same, nil,
		"cannot be: the peer has the stream too, or the connection would have ended"},
	{in(Offered), inOffer, same, nil, itOffers},
	{in(Broken), inOffer, same, nil, "cannot be: the peer has a stream that failed, too"},

	{in(Offered), inOfferMade, same, []action{doKeep, doAsk}, ""},
	{in(None, Barred, Wanted, Dialing, Open, Leaving, Left, Broken), inOfferMade, same, nil, notOffered},
	{in(Offered), inOfferFailed, None, []action{doGiveUp}, "the peer need not wait for an offer"},
	{in(None, Barred, Wanted, Dialing, Open, Leaving, Left, Broken), inOfferFailed, same, nil, notOffered},

	{in(Offered, Dialing), inConnected, Open, []action{doStream}, ""},
	{in(None, Barred, Wanted, Open, Leaving, Left, Broken), inConnected, same, nil, noAttempt},
	{in(Dialing), inDialFailed, None, []action{doGiveUp}, "the peer waits to be dialled"},
	{in(Offered), inDialFailed, same, nil, itOffers},
	{in(None, Barred, Wanted, Open, Leaving, Left, Broken), inDialFailed, same, nil, noAttempt},

	{in(None, Wanted), inGiveUp, None, []action{doFail}, "the peer could not make an offer"},
	{in(Barred), inGiveUp, same, []action{doFail}, "the peer could not make an offer, once more"},
	{in(Offered), inGiveUp, None, []action{doFail}, "the peer could not dial"},
	{in(Open, Leaving), inGiveUp, None, []action{doFail, doClose}, "the peer did not get our proof"},
	{in(Dialing), inGiveUp, same, nil, "cannot be: a rank that has made an offer does not give up"},
	{in(Left), inGiveUp, same, nil, "cannot be: the peer had the stream"},
	{in(Broken), inGiveUp, same, nil, "cannot be: a stream that is not used does not fail"},

	{in(Open, Leaving), inGiveUpMoved, Broken, []action{doBreak, doAlarm},
		"it did not get our proof, and what we sent is lost"},
	{in(None, Barred, Wanted, Offered, Dialing), inGiveUpMoved, same, nil, noStream},
	{in(Left), inGiveUpMoved, same, nil, "cannot be: the peer had the stream"},
	{in(Broken), inGiveUpMoved, same, nil, ended},

	{in(Wanted, Offered, Dialing), inUnanswered, same, []action{doAsk}, "the peer may be another epoch"},
	{in(None, Barred), inUnanswered, same, nil, "cannot be: nothing was asked"},
	{in(Open, Leaving, Left, Broken), inUnanswered, same, nil, "cannot be: there is a stream, or it has ended"},

	{in(Open), inRest, Leaving, []action{doLeave}, ""},
	{in(Wanted, Offered, Dialing), inRest, same, nil, "what is on its way is waited for"},
	{in(Leaving, Left), inRest, same, nil, "it is about to"},
	{in(None, Barred), inRest, same, nil, "cannot be: the connection itself is asked"},
	{in(Broken), inRest, same, nil, ended},

	{in(Open), inLeave, Left, []action{doLeave}, ""},
	{in(Leaving), inLeave, Left, nil, "both have found it idle"},
	{in(Dialing), inLeave, same, []action{doStay}, "it is not here yet, and this rank asked for it"},
	{in(Offered), inLeave, same, nil, offersFirst},
	{in(None, Barred, Wanted), inLeave, same, nil, noAttempt},
	{in(Left), inLeave, same, nil, "cannot be: it was heard"},
	{in(Broken), inLeave, same, nil, ended},

	{in(Open), inLeaveBusy, same, []action{doStay}, ""},
	{in(Leaving), inLeaveBusy, Left, nil, "the sender has to wait: LEAVE was said"},
	{in(Left), inLeaveBusy, same, nil, "cannot be: it was heard"},
	{in(None, Barred, Wanted, Offered, Dialing, Broken), inLeaveBusy, same, nil,
		"cannot be: it is LEAVE, without a stream"},

	{in(Leaving), inStay, Open, []action{doNotify}, "our end mark may be on its way: RETURNED comes all the same"},
	{in(None, Barred, Wanted), inStay, same, nil, noAttempt},
	{in(Offered, Dialing, Open), inStay, same, nil, "cannot be: we did not say LEAVE"},
	{in(Left), inStay, same, nil, "cannot be: the peer said LEAVE"},
	{in(Broken), inStay, same, nil, ended},

	{in(Left), inBothBack, None, []action{doClose, doForget, doNotify, doIdle}, ""},
	{in(None, Barred, Wanted, Offered, Dialing, Open, Leaving, Broken), inBothBack, same, nil,
		"cannot be: it is asked in Left only"},

	{in(Open, Leaving, Left), inBroken, Broken, []action{doBreak, doAlarm},
		"a stream that only receives would not notice"},
	{in(Broken), inBroken, same, []action{doAlarm}, "both sides have found it; here, it may have looked like an end"},
	{in(Dialing), inBroken, same, nil, "nothing of it is here, and the dial will fail"},
	{in(Offered), inBroken, same, nil, offersFirst},
	{in(None, Barred, Wanted), inBroken, same, nil, noAttempt},

	{in(Open, Leaving, Left), inLost, Broken, []action{doBroken, doAlarm},
		"the peer may wait for what was lost, and so may we"},
	{in(None, Barred, Wanted, Offered, Dialing), inLost, same, nil, noStream},
	{in(Broken), inLost, same, nil, "cannot be: the pair is known to have ended"},
	{in(Open, Leaving, Left), inGone, Broken, []action{doEnd}, "the agents will tell those ranks that wait"},
	{in(None, Barred, Wanted, Offered, Dialing), inGone, same, nil, noStream},
	{in(Broken), inGone, same, nil, "cannot be: the pair is known to have ended"},

	{in(None), inTried, Barred, nil, "datagrams carry everything"},
	{in(Barred, Wanted, Offered, Dialing, Open, Leaving, Left, Broken), inTried, same, nil,
		"cannot be: it is asked in None only"},

	{in(None, Wanted, Offered, Dialing), inRested, same, []action{doPardon},
		"what was asked may be staged for the next connection"},
	{in(Barred), inRested, None, []action{doPardon}, "in the next connection it is tried again"},
	{in(Open, Leaving, Left, Broken), inRested, None, []action{doClose, doForget, doPardon}, "the peer has left"},

	{in(None, Barred, Wanted, Offered, Dialing), inReset, None, []action{doForget, doPardon}, ""},
	{in(Open, Leaving, Left, Broken), inReset, None, []action{doClose, doForget, doPardon}, ""},

	{in(OutDatagrams), inMove, OutStream, []action{doSwitch}, "in the order of our messages"},
	{in(OutStream, OutMarked), inMove, same, nil, "cannot be: it has moved"},
	{in(OutStream), inMark, OutMarked, []action{doMark}, ""},
	{in(OutDatagrams), inMark, same, nil, "nothing of ours is on the stream"},
	{in(OutMarked), inMark, same, nil, "the mark is left of a LEAVE that was answered with STAY"},
	{in(OutMarked), inReturned, OutDatagrams, []action{doNotify}, ""},
	{in(OutDatagrams, OutStream), inReturned, same, nil, "cannot be: there is no end mark to be read"},
	{in(OutDatagrams, OutStream, OutMarked), inOver, OutDatagrams, nil, ""},

	{in(InDatagrams), inSwitch, InStream, []action{doRead}, ""},
	{in(InSwitched, InStream), inSwitch, same, nil, "cannot be: the peer waits for RETURNED before it moves again"},
	{in(InDatagrams), inSwitchEarly, InSwitched, nil, "the peer had the stream first"},
	{in(InSwitched, InStream), inSwitchEarly, same, nil,
		"cannot be: it is said once, and there is no stream to read"},
	{in(InSwitched), inConnected, InStream, []action{doRead}, ""},
	{in(InDatagrams), inConnected, same, nil, "what comes first by stream comes after SWITCH"},
	{in(InStream), inConnected, same, nil, "cannot be: it has been there"},
	{in(InStream), inEndMark, InDatagrams, []action{doReturned}, ""},
	{in(InDatagrams, InSwitched), inEndMark, same, nil, "cannot be: nobody reads"},
	{in(InDatagrams, InSwitched, InStream), inOver, InDatagrams, nil, ""},
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
