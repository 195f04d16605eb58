package peer

import (
	"math"
	"time"
)

const (
	never      = time.Duration(math.MaxInt64)
	firstRetry = 2 * time.Millisecond
	lastRetry  = 250 * time.Millisecond
	slowest    = 4 * time.Second // answer that is waited for before a packet is repeated
	askAfter   = 3               // resends without an answer before the agent is asked
	askEvery   = time.Second     // between questions to the agent
	// A machine with more ranks than cores is late by some scheduling rounds; its
	// agents must not be asked about each of them.
	askNotBefore = 200 * time.Millisecond
	giveUp       = 30 * time.Second // without an answer of a peer that runs
	giveUpProofs = int(giveUp / askEvery)
	ackDelay     = time.Millisecond
	// longAckDelay is what ackDelay becomes while messages of ours carry the acknowledgements:
	// there is a timer for each delay, which costs as much as a message. It is below leastRTO.
	longAckDelay = 3 * time.Millisecond
)

// pace is how long answers take of late, over all peers that share a Scratch.
// What one of them learns keeps the others from repeating themselves while the
// machine or the network is slow: a rank that turns to a hundred others at once
// slows its own answers down.
type pace struct{ smooth time.Duration }

// learn takes one time from a packet to its answer, and no other time: what is
// taken for a slow answer and was a lost packet would hold up the next ones. So
// would a peer that stood still.
func (c *pace) learn(took time.Duration) {
	took = min(took, slowest)
	if took > c.smooth {
		c.smooth += (took - c.smooth) / 4
	} else {
		c.smooth += (took - c.smooth) / 16
	}
}

// first is when a packet is sent again for the first time.
func (c *pace) first(least time.Duration) time.Duration {
	return min(max(least, 2*c.smooth), slowest)
}

// retry is what runs while an answer is awaited: of the handshake, of FIN, or
// of segments.
type retry struct {
	at     time.Duration // of the next resend; never: nothing is awaited
	since  time.Duration // of the last sign of progress
	ask    time.Duration // of the next question to the agent
	tries  int           // resends since then: how far the delay has doubled
	silent int           // resends since the peer's last packet
	proofs int           // since then: times that the agent has said that the peer runs
	proven time.Duration // when it said so last
}

// begin starts to wait for an answer. When the agent was asked last is not
// forgotten: a link that loses half of everything would ask all the time.
func (r *retry) begin(now, delay time.Duration) {
	*r = retry{at: now + delay, since: now, ask: r.ask}
}

func (r *retry) stop() { r.at = never }

// again counts a resend and waits for its answer.
func (r *retry) again(now, delay time.Duration) {
	r.tries++
	r.silent++
	r.at = now + delay
}

// proof notes that the peer runs, for another askEvery. What was asked while it
// stood still is answered all at once and shows no more than one answer does.
func (r *retry) proof(now time.Duration) {
	if r.proofs == 0 || now >= r.proven+askEvery/2 {
		r.proofs++
		r.proven = now
	}
}

// overdue is when the peer counts as out of reach: it has run for so long and did
// not answer. A peer that stands still, stopped or on a node that is frozen, gives
// no proofs. Whether it has ended is the agents' to say.
func (r *retry) overdue() time.Duration {
	if r.proofs < giveUpProofs {
		return never
	}
	return r.since + giveUp
}

// next is when a Tick is due.
func (r *retry) next() time.Duration {
	if r.at == never {
		return never
	}
	at := min(r.at, r.overdue())
	if r.silent >= askAfter {
		at = min(at, max(r.ask, r.since+askNotBefore))
	}
	return at
}

// doubled is how long to wait after so many resends.
func doubled(d time.Duration, times int) time.Duration {
	return max(d, min(d<<min(times, 10), lastRetry))
}

// stampUnit is what stamps count, and stamps how many of them there are: they
// come again long after giveUp.
const (
	stampUnit = time.Millisecond
	stamps    = 1<<16 - 1
)

// stamp is a time for the peer to send back; never 0.
func stamp(now time.Duration) uint16 { return uint16(now/stampUnit%stamps) + 1 }

// since is how long ago something was stamped.
func since(now time.Duration, then uint16) time.Duration {
	return time.Duration((int(stamp(now))+stamps-int(then))%stamps) * stampUnit
}

// answered learns how long the answer took that has come. After a resend only an
// echo tells which packet it answers.
func (p *Peer) answered(c *cue) {
	switch {
	case p.retry.at == never:
	case p.retry.tries == 0:
		p.scratch.pace.learn(p.now - p.retry.since)
	case c.kind == PacketState && c.echo > 0:
		p.scratch.pace.learn(since(p.now, c.echo))
	}
}

// jitter spreads d by a quarter either way, so that a thousand ranks that
// lost one switch do not come back in step.
func (p *Peer) jitter(d time.Duration) time.Duration {
	p.seed += 0x9e3779b97f4a7c15 // splitmix64
	z := p.seed
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return d*3/4 + time.Duration(z%uint64(d/2+1))
}

// arm sets the timer if what is set would come too late. A deadline that
// moved away costs a needless Tick later and nothing now.
func (p *Peer) arm() {
	at := p.retry.next()
	if p.state == Resolving {
		at = p.retry.at // the agent parks a question as long as it takes
	}
	if p.win != nil {
		at = min(at, p.win.ackAt, p.probeAt())
	}
	if at < p.armed {
		p.armed = at
		p.emit(Effect{Kind: SetTimer, At: at})
	}
}

// tick does what is due.
func (p *Peer) tick() {
	p.armed = never
	if w := p.win; w != nil {
		w.ackWait = longAckDelay
		if w.ackAt <= p.now {
			w.answerNow()
			w.ackWait = ackDelay
			w.hold.gap = 0 // the acknowledgement was sent without data
		}
	}
	if p.probeAt() <= p.now {
		p.tryFirst()
	}
	r := &p.retry
	switch {
	case r.at == never:
	case p.state != Resolving && r.overdue() <= p.now:
		p.apply(inGiveUp, &cue{cause: TimedOut})
	case r.at <= p.now:
		p.apply(inResend, &cue{})
		fallthrough
	default:
		if p.state != Resolving && r.silent >= askAfter && max(r.ask, r.since+askNotBefore) <= p.now {
			r.ask = p.now + askEvery
			p.question(true)
		}
	}
}
