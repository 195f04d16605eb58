package peer

import (
	"math"
	"time"
)

const (
	never      = time.Duration(math.MaxInt64) // time of a timer that is not set
	firstRetry = 2 * time.Millisecond         // minimum time before the first resend of a handshake packet or FIN
	lastRetry  = 250 * time.Millisecond       // maximum up to which doubling raises the time between resends
	slowest    = 4 * time.Second              // maximum time before the first resend, however slow answers are
	askAfter   = 3                            // resends without an answer until the agent is asked if the peer runs
	askEvery   = time.Second                  // minimum time between two questions to the agent
	// askNotBefore is the minimum time without progress after which the agent is asked. On a machine with more
	// ranks than cores, answers are often late by some scheduling rounds.
	askNotBefore = 200 * time.Millisecond
	giveUp       = 30 * time.Second       // time without progress after which a connection fails if the peer runs
	giveUpProofs = int(giveUp / askEvery) // confirmations that the peer runs before a connection fails
	ackDelay     = time.Millisecond       // delay of an acknowledgement after one had to be sent without data
	// longAckDelay replaces ackDelay while segments of this rank carry the acknowledgements. A longer delay needs
	// fewer timers, each of which costs as much as a message. It is below leastRTO.
	longAckDelay = 3 * time.Millisecond
)

// pace estimates the time in which peers answer. All Peers with the same Scratch share it. So while the machine or the
// network is slow, no Peer resends packets too early. A rank that connects to a hundred others at once slows down their
// answers itself.
type pace struct{ smooth time.Duration } // smooth is the smoothed answer time; 0 until one is known

// learn adds a measured time from a packet to its answer. The caller must not pass the time of a packet that may have
// been lost, because it would delay the resends of all Peers.
func (c *pace) learn(took time.Duration) {
	took = min(took, slowest)
	if took > c.smooth {
		c.smooth += (took - c.smooth) / 4
	} else {
		c.smooth += (took - c.smooth) / 16
	}
}

// first returns the delay before the first resend of a packet: twice the smoothed answer time, but at least least and
// at most 4 s.
func (c *pace) first(least time.Duration) time.Duration {
	return min(max(least, 2*c.smooth), slowest)
}

// retry is the state of waiting for an answer to a handshake packet, to FIN, or to segments. Its times are on the clock
// of Step.
type retry struct {
	at     time.Duration // time of the next resend, or never if no answer is awaited
	since  time.Duration // time of the last progress, or of the start of the wait
	ask    time.Duration // earliest time of the next question to the agent
	tries  int           // resends since the time in since; each doubles the delay
	silent int           // resends since the last progress or acknowledgement
	proofs int           // confirmations by the agent, since the time in since, that the peer runs
	proven time.Duration // time of the last confirmation that was counted
}

// begin starts to wait for an answer, with a resend after delay. It does not reset r.ask, because otherwise a pair on a
// link with many losses would ask the agent all the time.
func (r *retry) begin(now, delay time.Duration) {
	*r = retry{at: now + delay, since: now, ask: r.ask}
}

func (r *retry) stop() { r.at = never }

// again counts a resend and schedules the next one after delay.
func (r *retry) again(now, delay time.Duration) {
	r.tries++
	r.silent++
	r.at = now + delay
}

// proof counts a confirmation of the agent that the peer runs. It ignores a confirmation that comes less than
// askEvery/2 after the last counted one: if the peer was stopped, several questions are answered at once when it
// continues.
func (r *retry) proof(now time.Duration) {
	if r.proofs == 0 || now >= r.proven+askEvery/2 {
		r.proofs++
		r.proven = now
	}
}

// overdue returns the time at which the connection fails, or never. It returns a time only after giveUpProofs
// confirmations that the peer runs. A stopped peer, or a peer on a frozen node, does not confirm that it runs. If the
// peer has ended, the agents report that.
func (r *retry) overdue() time.Duration {
	if r.proofs < giveUpProofs {
		return never
	}
	return r.since + giveUp
}

// next returns the time at which the next Tick is needed, or never.
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

// doubled returns d doubled the given number of times, but at most lastRetry or, if that is longer, d.
func doubled(d time.Duration, times int) time.Duration {
	return max(d, min(d<<min(times, 10), lastRetry))
}

// stampUnit is the unit of a stamp, and stamps the number of different stamps. A stamp value recurs after 65 s, which
// is longer than giveUp.
const (
	stampUnit = time.Millisecond
	stamps    = 1<<16 - 1
)

// stamp encodes a time for the field stamp of a packet, from 1 to stamps. The peer sends it back.
func stamp(now time.Duration) uint16 { return uint16(now/stampUnit%stamps) + 1 }

// since returns the time between the stamp then and now, modulo 65 s.
func since(now time.Duration, then uint16) time.Duration {
	return time.Duration((int(stamp(now))+stamps-int(then))%stamps) * stampUnit
}

// answered passes to pace.learn the time between a packet of this rank and its answer c. After a resend, it uses the
// echo of a STATE, because only the echo shows which packet was answered.
func (p *Peer) answered(c *cue) {
	switch {
	case p.retry.at == never:
	case p.retry.tries == 0:
		p.scratch.pace.learn(p.now - p.retry.since)
	case c.kind == PacketState && c.echo > 0:
		p.scratch.pace.learn(since(p.now, c.echo))
	}
}

// jitter returns a random time from 3/4 d to 5/4 d, so that many ranks do not resend at the same time after the failure
// of a switch.
func (p *Peer) jitter(d time.Duration) time.Duration {
	p.seed += 0x9e3779b97f4a7c15 // splitmix64
	z := p.seed
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return d*3/4 + time.Duration(z%uint64(d/2+1))
}

// arm sets the timer if it is not set or would expire too late. If it would expire too early, arm leaves it: an
// unnecessary Tick is harmless.
func (p *Peer) arm() {
	at := p.retry.next()
	if p.state == Resolving {
		at = p.retry.at // the agent answers only when it knows the address; do not ask again
	}
	if p.win != nil {
		at = min(at, p.win.ackAt, p.probeAt())
	}
	if at < p.armed {
		p.armed = at
		p.emit(Effect{Kind: SetTimer, At: at})
	}
}

// tick sends the acknowledgements, probes, resends and questions that are due, and fails the connection if overdue.
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
