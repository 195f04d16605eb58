package peer

import "slices"

// except returns all states of the region stream except the given ones.
func except(some ...upgradeState) (rest []upgradeState) {
	for s := range outDatagrams {
		if !slices.Contains(some, s) {
			rest = append(rest, s)
		}
	}
	return rest
}

// Values of row.why that are used in several rows.
const (
	underWay   = "cannot be: it is under way, so no message asks for it"
	noAttempt  = "cannot be: the token is of no attempt"
	itDials    = "cannot be: this state is of a rank that dials"
	takenFirst = "cannot be: the rank that dials sends TAKEN first"
)

type upgradeRow = row[upgradeState, upgradeInput, upgradeAction]

// upgradeTable contains a row for each state and each input of the upgrade. TestUpgradeStates writes the tables of
// docs/dev/upgrade.md from it.
var upgradeTable = []upgradeRow{
	{in(noStream), on(onNeed), wanted, []upgradeAction{stepAsk}, "the higher rank makes the offer, whichever wants the stream"},
	{in(wanted, dialing), on(onNeed), same, nil, underWay},
	{in(offered, accepted), on(onNeed, onOffer, onConnected, onDialFailed), same, nil,
		"cannot be: this state is of a rank that offers"},
	{in(barred), on(onNeed, onNeedOffer), same, nil, "cannot be: datagrams carry everything"},
	{in(open, leaving, left, broken), on(onNeed, onNeedOffer), same, nil,
		"cannot be: a message moves to the stream that there is"},
	{in(stopping, resuming), on(onNeed, onNeedOffer), same, nil, "cannot be: messages wait"},

	{in(noStream), on(onNeedOffer), offered, []upgradeAction{MakeOffer}, ""},
	{in(offered, accepted), on(onNeedOffer), same, nil, underWay},
	{in(wanted, dialing), on(onNeedOffer, onWant), same, nil, itDials},

	{in(noStream), on(onWant), offered, []upgradeAction{MakeOffer}, ""},
	{in(barred), on(onWant), offered, []upgradeAction{MakeOffer}, "the peer has counted fewer failures"},
	{in(offered), on(onWant), same, nil, "WANT and OFFER have crossed, or it is sent again"},
	{in(accepted, stopping, resuming), on(onWant), same, nil, "WANT is older than the stream"},
	{in(open, leaving, left, broken), on(onWant), same, nil, "cannot be: the peer has sent TAKEN"},

	{in(noStream, barred, wanted), on(onOffer), dialing, []upgradeAction{stepDial}, ""},
	{in(dialing), on(onOffer), dialing, []upgradeAction{stepDial}, "the older attempt has ended at the peer"},
	{in(open, leaving, left), on(onOffer), same, nil,
		"cannot be: the peer has the stream too, or the connection would have ended"},
	{in(broken), on(onOffer), same, nil, "cannot be: the peer has a stream that failed, too"},
	{in(stopping, resuming), on(onOffer), same, nil, "cannot be: the peer sends RESUME, or the last RETURNED, first"},

	{in(offered), on(onOfferMade), same, []upgradeAction{stepKeep, stepAsk}, ""},
	{except(offered), on(onOfferMade, onOfferFailed), same, nil,
		"cannot be: an offer is made in Offered only, and at once"},
	{in(offered), on(onOfferFailed), noStream, []upgradeAction{stepGiveUp}, "the peer need not wait for an offer"},

	{in(dialing), on(onConnected), open, []upgradeAction{controlTaken, stepStream}, ""},
	{except(offered, dialing, accepted), on(onConnected, onDialFailed), same, nil, noAttempt},
	{in(offered), on(onAccepted), accepted, nil, "the peer may have given up, or will, before it gets our proof"},
	{in(dialing), on(onAccepted, onTaken), same, nil, itDials},
	{except(offered, dialing), on(onAccepted), same, nil, noAttempt},
	{in(accepted), on(onTaken), open, []upgradeAction{stepStream}, ""},
	{in(offered), on(onTaken, onResume), same, nil, "cannot be: the peer does not have our proof"},
	{in(noStream, barred, wanted), on(onTaken, onLeave, onStay, onBroken, onResume), same, nil, noAttempt},
	{in(open, leaving, left, broken), on(onTaken), same, nil, "cannot be: it is sent once"},
	{in(stopping, resuming), on(onTaken), same, nil, "it is older than the failure"},

	{in(dialing), on(onDialFailed), noStream, []upgradeAction{stepGiveUp}, "the peer waits to be dialled"},

	{in(noStream, wanted), on(onGiveUp), noStream, []upgradeAction{stepFail}, "the peer could not make an offer"},
	{in(barred), on(onGiveUp), same, []upgradeAction{stepFail}, "the peer could not make an offer, once more"},
	{in(offered), on(onGiveUp), noStream, []upgradeAction{stepFail}, "the peer could not dial"},
	{in(accepted, stopping, resuming), on(onGiveUp), noStream, []upgradeAction{stepFail, Close}, "the peer did not get our proof"},
	{in(dialing), on(onGiveUp), same, nil, "cannot be: a rank that has made an offer does not give up"},
	{in(open, leaving, left, broken), on(onGiveUp), same, nil,
		"cannot be: a rank that has the stream does not give up"},

	{in(wanted, offered, dialing), on(onUnanswered), same, []upgradeAction{stepAsk}, "the peer may be another epoch"},
	{in(noStream, barred), on(onUnanswered), same, nil, "cannot be: nothing was asked"},
	{in(accepted, open, leaving, left, broken, stopping, resuming), on(onUnanswered), same, nil,
		"cannot be: there is a stream, or it has ended"},

	{in(open), on(onRest), leaving, []upgradeAction{stepLeave}, ""},
	{in(wanted, offered, dialing, accepted), on(onRest), same, nil, "what is on its way is waited for"},
	{in(leaving, left, stopping, resuming), on(onRest), same, nil, "it is about to"},
	{in(noStream, barred), on(onRest), same, nil, "cannot be: the connection itself is asked"},
	{in(broken), on(onRest, onLeave, onStay, onResume), same, nil, "the pair has ended"},

	{in(open), on(onLeave), left, []upgradeAction{stepLeave, stepLeft}, ""},
	{in(leaving), on(onLeave), left, []upgradeAction{stepLeft}, "both have found it idle"},
	{in(stopping, resuming), on(onLeave), same, []upgradeAction{stepLeft}, "if we have sent LEAVE, the peer may need no RESUME"},
	{in(offered, accepted), on(onLeave, onBroken), same, nil, takenFirst},
	{in(dialing), on(onLeave, onBroken), same, nil,
		"cannot be: the rank that offers does not use the stream before TAKEN"},
	{in(left), on(onLeave, onLeaveBusy), same, nil, "cannot be: it was received"},

	{in(open), on(onLeaveBusy), same, []upgradeAction{controlStay}, ""},
	{in(leaving), on(onLeaveBusy), left, []upgradeAction{stepLeft}, "the sender has to wait: LEAVE was sent"},
	{except(open, leaving, left), on(onLeaveBusy), same, nil, "cannot be: it is LEAVE, without a stream"},

	{in(stopping, resuming), on(onStay), same, []upgradeAction{stepStayed}, ""},
	{in(leaving), on(onStay), open, []upgradeAction{stepStayed, Notify},
		"our end mark may be on its way: RETURNED comes all the same"},
	{in(offered, dialing, accepted, open), on(onStay), same, nil, "cannot be: we did not send LEAVE"},
	{in(left), on(onStay), same, nil, "cannot be: the peer sent LEAVE"},

	{in(left), on(onBothBack), noStream, []upgradeAction{Close, stepForget, Notify, MayRest}, ""},
	{in(stopping, resuming), on(onBothBack), noStream, []upgradeAction{Close, stepForget, Notify, MayRest},
		"both had sent LEAVE: the peer needs no RESUME, and has no stream to answer it for"},
	{except(left, stopping, resuming), on(onBothBack), same, nil, "cannot be: it is asked when both have sent LEAVE"},

	{in(open, leaving, left), on(onBroken), broken, []upgradeAction{stepBreak, stepAlarm},
		"a stream that only receives would not notice"},
	{in(stopping, resuming), on(onBroken), broken, []upgradeAction{stepBreak, stepAlarm}, "the peer does not keep what it writes"},
	{in(broken), on(onBroken), same, []upgradeAction{stepAlarm},
		"both sides have found it; here, it may have looked like an end"},

	{in(open, leaving, left), on(onLost), broken, []upgradeAction{controlBroke, stepAlarm},
		"the peer may wait for what was lost, and so may we"},
	{in(noStream, barred, wanted, offered, dialing), on(onLost, onCut, onPeerEnded), same, nil,
		"cannot be: there is no stream"},
	{in(accepted), on(onLost, onPeerEnded), same, nil, "cannot be: nothing reads it or writes to it"},
	{in(broken), on(onLost, onCut, onPeerEnded), same, nil, "cannot be: the pair is known to have ended"},
	{in(stopping, resuming), on(onLost), same, nil, "cannot be: messages are kept"},

	{in(accepted, open, leaving, left), on(onCut), stopping, []upgradeAction{Stop},
		"what has come by it is counted before the peer is told"},
	{in(stopping, resuming), on(onCut), same, nil, "it is known"},
	{in(open, leaving, left), on(onResume), stopping, []upgradeAction{stepPeers, Stop}, "the stream has failed at the peer"},
	{in(stopping, resuming), on(onResume), same, []upgradeAction{stepPeers}, ""},
	{in(dialing), on(onResume), noStream, []upgradeAction{stepResume, stepForget, Notify},
		"the peer has proved itself, and the stream has failed there before we knew of it"},
	{in(accepted), on(onResume), same, nil, takenFirst},
	{in(stopping), on(onStopped), resuming, []upgradeAction{stepResume}, ""},
	{except(stopping), on(onStopped), same, nil, "cannot be: no stream was stopped"},
	{in(resuming), on(onResumed), noStream, []upgradeAction{stepAgain, Close, stepForget, Notify}, "in the order of our messages"},
	{except(resuming), on(onResumed), same, nil, "cannot be: it is asked in Resuming only"},

	{in(barred), on(onMoved), noStream, []upgradeAction{stepPardon, Notify}, "by the other network it may work"},
	{except(barred), on(onMoved), same, []upgradeAction{stepPardon}, ""},
	{in(open, leaving, left), on(onPeerEnded), broken, []upgradeAction{stepEnd}, "the agents will tell those ranks that wait"},
	{in(stopping, resuming), on(onPeerEnded), same, nil, "cannot be: its reader says that it has stopped"},

	{in(noStream), on(onTried), barred, nil, "datagrams carry everything"},
	{except(noStream), on(onTried), same, nil, "cannot be: it is asked in None only"},

	{in(noStream, wanted, offered, dialing), on(onRested), same, []upgradeAction{stepPardon},
		"what was asked may be staged for the next connection"},
	{in(barred), on(onRested), noStream, []upgradeAction{stepPardon}, "in the next connection it is tried again"},
	{in(accepted, open, leaving, left, broken, stopping, resuming), on(onRested), noStream,
		[]upgradeAction{stepLose, Close, stepForget, stepPardon}, "the peer has left"},

	{in(noStream, barred, wanted, offered, dialing), on(onReset), noStream, []upgradeAction{stepForget, stepPardon}, ""},
	{in(accepted, open, leaving, left, broken, stopping, resuming), on(onReset), noStream,
		[]upgradeAction{Close, stepForget, stepPardon}, ""},

	{in(outDatagrams), on(onMove), outStream, []upgradeAction{controlSwitch}, "in the order of our messages"},
	{in(outStream, outMarked), on(onMove), same, nil, "cannot be: it has moved"},
	{in(outStream), on(onMark), outMarked, []upgradeAction{Mark}, ""},
	{in(outDatagrams), on(onMark), same, nil, "nothing of ours is on the stream"},
	{in(outMarked), on(onMark), same, nil, "the mark is left of a LEAVE that was answered with STAY"},
	{in(outMarked), on(onReturned), outDatagrams, []upgradeAction{Notify}, ""},
	{in(outDatagrams, outStream), on(onReturned), same, nil, "cannot be: there is no end mark to be read"},
	{in(outDatagrams, outStream, outMarked), on(onOver), outDatagrams, nil, ""},

	{in(inDatagrams), on(onSwitch), inStream, []upgradeAction{Read}, ""},
	{in(inDatagrams), on(onMissed), inStream, nil, "what is on the stream will be sent again"},
	{in(inStream), on(onMissed, onSwitch), same, nil, "cannot be: the peer waits for RETURNED before it moves again"},
	{in(inStream), on(onEndMark), inDatagrams, []upgradeAction{controlReturned}, ""},
	{in(inDatagrams), on(onEndMark), same, nil, "cannot be: nobody reads"},
	{in(inDatagrams, inStream), on(onOver), inDatagrams, nil, ""},
}

// upgradeIndex contains the rows of upgradeTable, indexed first by state and then by input.
var upgradeIndex [][]*upgradeRow

func init() { // an initializer of upgradeIndex would be circular, because actions use upgradeIndex
	upgradeIndex = indexed(upgradeTable, upgradeStates, upgradeInputs)
}
