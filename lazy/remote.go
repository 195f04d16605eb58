package lazy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// remotePeer is a peer on another node. Its fields belong to the table's lock of remote peers.
type remotePeer struct {
	t        *Table
	rank     uint32
	peer     *peer.Peer
	timer    *time.Timer
	turn     chan struct{} // capacity 1: senders, one after the other
	news     chan struct{} // capacity 1: something that the one sender may wait for
	began    time.Time     // of the first Send; zero when its latency is known
	used     time.Duration
	early    int // bytes staged before the pair is connected
	opens    int
	up       bool
	slot     uint64 // its ticket for the handshake under way; 0: none
	checking bool   // the agent has been asked whether it runs

	suspicion suspicion // not under the lock

	stream *stream // as long as the pair has one

	before    uint64 // Repeated when it took the slot
	secondary secondary
	dialing   context.CancelFunc // of the dial under way; nil: none
	dialToken peer.Token         // of that dial
	resumes   uint64             // streams that have failed and lost nothing
	left      time.Time          // when the stream of the second network was to be given up last

	bundle bundle

	limbo bool  // its stream has ended, and the agent was asked what became of it
	runs  int   // answers since then that it runs
	alarm bool  // if it does, a receiver of any rank has to know of the stream
	why   error // the stream has ended

	failures int   // so far
	err      error // the last one
	reported int   // failures that some Send, Flush or Finalize has returned
	dead     error // it can never work again
	departed bool  // its rank is not of the job any more, and another may get its number
}

// earlyLimit is what all peers that are not connected yet may have staged, in bytes.
const earlyLimit = 64 << 10

// moveAt is the number of bytes, 64 for each message included, that may wait
// for acknowledgement before the pair moves to a stream.
const moveAt = 64 << 10

// remotePeer returns a peer, made at its first use. The caller may hold the lock of remote peers or
// not, so this steps nothing.
func (t *Table) remotePeer(rank uint32) *remotePeer {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.fars[rank]
	if f == nil {
		f = &remotePeer{t: t, rank: rank, turn: make(chan struct{}, 1), news: make(chan struct{}, 1)}
		cfg := peer.Config{
			Epoch: t.cfg.Epoch, Tuple: t.fabric.Tuple(), MTU: t.mtu(),
			Stage: moveAt, Seed: uint64(t.cfg.Rank)<<32 | uint64(rank), Scratch: &t.scratch, Floor: t.floor(rank),
			Hold: t.cfg.Hold, Dials: t.cfg.Rank < rank, Always: t.cfg.Streams, Worth: t.cfg.Worth,
		}
		if t.secondary != nil {
			cfg.Secondary = t.secondary.Tuple()
		}
		cfg.Down = t.down != nil
		f.peer = peer.New(cfg)
		f.timer = time.AfterFunc(time.Hour, f.tick)
		f.timer.Stop()
		f.suspicion.timer = time.AfterFunc(time.Hour, f.suspect)
		f.suspicion.timer.Stop()
		if t.broken != nil {
			f.dead = t.about(rank, t.broken)
			t.in.lose(rank, f.dead)
		}
		t.fars[rank] = f
		t.in.mu.Lock()
		t.in.source(rank).taken = f.taken
		t.in.mu.Unlock()
		t.count(func(s *sums) { s[job.CountPeers]++ })
	}
	return f
}

func (t *Table) remotePeers() []*remotePeer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.fars))
}

// followUp is what performing the effects of one event calls for, and what comes after the last of them.
type followUp struct {
	resend  [][]byte    // messages that go again as datagrams
	offer   bool        // the peer waits for an offer
	moved   bool        // the pair goes by another network
	resting *remotePeer // a peer whose connection is to be closed if it is idle
}

// step gives a peer an event and performs what comes of it. No peer gets an event while the effects of another one are
// performed: what they call for follows afterwards. The caller holds the lock of remote peers.
func (t *Table) step(f *remotePeer, ev peer.Event) {
	f.used = time.Since(t.began)
	var next followUp
	effects := f.peer.Step(f.used, ev)
	for i := range effects {
		t.perform(f, &effects[i], &next)
	}
	t.post()
	if t.cfg.afterStep != nil {
		t.cfg.afterStep(f.peer)
	}
	for _, m := range next.resend {
		t.step(f, peer.Event{Kind: peer.Send, Msg: m})
	}
	if next.offer {
		t.step(f, f.makeOffer())
	}
	if next.moved {
		f.leaveSecond(f.busy())
	}
	if next.resting != nil {
		next.resting.rest()
	}
	t.openReady()
}

func (t *Table) perform(f *remotePeer, e *peer.Effect, next *followUp) {
	switch e.Kind {
	case peer.Transmit:
		t.transmit(f, e)
	case peer.SetTimer:
		f.timer.Reset(max(0, e.At-time.Since(t.began)))
	case peer.Resolve:
		t.resolve(f, e.Least, e.Fresh)
	case peer.Deliver:
		t.in.arrived(Message{f.rank, e.Msg})
	case peer.DeliverBundle:
		for m, rest, ok := peer.CutBundled(e.Msg); ok; m, rest, ok = peer.CutBundled(rest) {
			t.in.arrived(Message{f.rank, m})
		}
	case peer.Opened:
		f.opened()
		if t.live > t.cfg.MaxLive {
			next.resting = t.oldest(f)
		}
	case peer.Closed:
		f.down()
		f.notify()
	case peer.Failed:
		f.failed(e.Cause, e.Least)
	case peer.Writable, peer.Notify:
		f.notify()
	case peer.Drained:
		f.drained()
		if t.live > t.cfg.MaxLive {
			next.resting = t.oldest(nil) // a connection that was busy when its turn came may be idle now
		}
	case peer.Renewed:
		f.renewed(e.Least)
	case peer.ResolveSecondary:
		t.askSecondary(f, f.peer.Epoch())
	case peer.Moved:
		f.moved()
		next.moved = true
	case peer.MakeOffer:
		next.offer = true
	case peer.Dial:
		t.dial(f, e.Token, e.Msg)
	case peer.Read:
		f.read(f.stream)
	case peer.Stop:
		f.stream.stop(errMoved)
	case peer.Again:
		f.resumes++
		next.resend = f.stream.resume(e.Have)
	case peer.Lose:
		if f.stream != nil && f.stream.unsure() {
			f.fail(t.about(f.rank, ErrFailed))
		}
	case peer.Mark:
		f.mark(f.stream) // the write may wait, and the lock of remote peers must not
	case peer.Close:
		f.close(e.Why)
	case peer.End:
		f.ended(ended(e.Why), e.Alarm)
	case peer.MayRest:
		if t.live > t.cfg.MaxLive {
			next.resting = f
		}
	}
}

// ended handles the end of a pair for good, whose stream was lost. If alarm is set, the peer runs.
func (f *remotePeer) ended(why error, alarm bool) {
	if f.t.cfg.Restarts && f.dead == nil {
		f.doubt(why, alarm)
		return
	}
	f.kill(why)
	if alarm {
		f.t.in.alarm(f.dead) // the peer runs, and a receiver of any rank may wait for what was lost
	}
}

// restIfCrowded closes the connection that has been idle longest if there are too many. The caller holds the lock of
// remote peers, and performs no effects.
func (t *Table) restIfCrowded() {
	if t.live <= t.cfg.MaxLive || t.stopped {
		return
	}
	if f := t.oldest(nil); f != nil {
		f.rest()
	}
}

// kill says that a peer can never be reached again, to whoever waits and to whoever comes.
func (f *remotePeer) kill(why error) {
	if f.dead == nil {
		f.dead = f.t.about(f.rank, why)
	}
	f.bundle.drop()
	f.fail(f.dead)
}

// end stops the timers of a peer and ends its stream. It is called after the table has been stopped.
func (f *remotePeer) end() {
	f.timer.Stop()
	if f.bundle.timer != nil {
		f.bundle.timer.Stop()
	}
	f.suspicion.timer.Stop()
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	f.close(nil)
	f.notify()
}

func (f *remotePeer) notify() {
	select {
	case f.news <- struct{}{}:
	default:
	}
}

func (f *remotePeer) opened() {
	t := f.t
	t.early -= f.early
	f.early = 0
	f.leaveSlot()
	f.opens++
	f.up = true
	t.live++
	t.in.regain(f.rank)
	t.count(func(s *sums) {
		s[job.CountConnections]++
		if f.opens > 1 {
			s[job.CountReopened]++
		}
	})
	f.notify()
}

// oldest returns the peer whose connection has been idle longest, without but, or nil.
func (t *Table) oldest(but *remotePeer) (oldest *remotePeer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.fars {
		if f != but && f.peer.State() == peer.Up && !f.peer.Draining() && (oldest == nil || f.used < oldest.used) {
			oldest = f
		}
	}
	return oldest
}

// failed handles the failure of a connection. If epoch is not 0, a newer start of the peer is the cause.
func (f *remotePeer) failed(c peer.Cause, epoch uint16) {
	t := f.t
	t.early -= f.early
	f.early = 0
	var cause error = ErrFailed
	switch c {
	case peer.Exited:
		cause = ErrEnded
	case peer.NoRank:
		cause = ErrRank
	case peer.TimedOut:
		cause = errors.New("no answer for 30 s, although it runs")
	case peer.Restarted, peer.WasReset:
		cause = errors.New(c.String())
	}
	f.down()
	if epoch > 0 {
		f.lostTo(epoch)
		f.notify()
		return
	}
	f.fail(f.t.about(f.rank, cause))
	if c == peer.TimedOut { // it runs, and may wait for what was lost: nobody else would end that
		t.in.alarm(f.err)
	}
}

// down takes a pair off those that are connected.
func (f *remotePeer) down() {
	f.leaveSlot()
	if f.up {
		f.up = false
		f.t.live--
	}
}

// fail records a failure for whoever looks next.
func (f *remotePeer) fail(err error) {
	f.failures++
	f.err = err
	f.t.in.lose(f.rank, err)
	f.notify()
}

func (f *remotePeer) drained() {
	if !f.began.IsZero() {
		f.t.latency(time.Since(f.began))
		f.began = time.Time{}
	}
	f.notify()
}

func (f *remotePeer) tick() {
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	if !f.t.stopped && !f.departed {
		f.t.step(f, peer.Event{Kind: peer.Tick})
		if f.peer.Unacked() == 0 {
			f.t.out.b = nil // as the Peer does with what a burst has needed
		}
	}
}

// suspect asks the agent whether a peer that keeps a receiver waiting still
// runs; Answered tells the receiver if not.
func (f *remotePeer) suspect() {
	if !f.suspicion.due(time.Since(f.t.began)) {
		return
	}
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	if !f.t.stopped && !f.departed {
		f.t.ask(waitingRemote{remotePeer: f, fresh: true})
	}
}

// taken opens the window again as the application receives.
func (f *remotePeer) taken(bytes int) {
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	if !f.peer.Reading() && !f.t.stopped && !f.departed {
		f.t.step(f, peer.Event{Kind: peer.Taken, N: bytes})
	}
}

func (f *remotePeer) warm() {
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	if !f.t.stopped {
		f.t.step(f, peer.Event{Kind: peer.Warm})
	}
}

// report returns a failure that nobody has been told of; the caller holds the lock.
func (f *remotePeer) report() error {
	if f.dead != nil {
		return f.dead
	}
	if f.reported < f.failures {
		f.reported = f.failures
		if _, restarted := f.err.(*RestartError); !restarted || f.t.in.claimOf(f.rank) != nil {
			return f.err
		}
	}
	return nil
}

// waitNews waits until notify is called or ctx ends. It releases the lock of remote peers while it waits.
func (f *remotePeer) waitNews(ctx context.Context) error {
	f.t.fmu.Unlock()
	defer f.t.fmu.Lock()
	select {
	case <-f.news:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send waits for its turn and until the message is taken.
func (f *remotePeer) send(ctx context.Context, m []byte) error {
	if err := acquire(ctx, f.turn); err != nil {
		return err
	}
	defer func() { <-f.turn }()
	for {
		out, err := f.offer(m)
		if out != nil {
			if done, err := f.byStream(ctx, out, m); done {
				return err
			}
			continue
		}
		if !errors.Is(err, ErrFull) {
			return err
		}
		select {
		case <-f.news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// try is send without waiting.
func (f *remotePeer) try(m []byte) error {
	select {
	case f.turn <- struct{}{}:
	default:
		return ErrFull
	}
	out, err := f.offer(m)
	if out == nil {
		<-f.turn
		return err
	}
	taken, err := out.try(m)
	<-f.turn
	switch {
	case taken:
		f.t.count(func(s *sums) { s[job.CountStreamed]++ })
		return nil
	case err == nil:
		return ErrFull
	case f.t.cfg.Restarts || out.kept != nil:
		f.t.fmu.Lock()
		defer f.t.fmu.Unlock()
		f.lostStream(out, err)
		return ErrFull // until it is known what became of the peer
	}
	return f.t.about(f.rank, ended(err))
}

// offer hands a message to the window if it fits, or returns the stream that
// it has to go by. ErrFull: neither yet; news will come.
func (f *remotePeer) offer(m []byte) (*stream, error) {
	t := f.t
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if t.stopped {
		return nil, ErrClosed
	}
	if err := f.report(); err != nil {
		return nil, err
	}
	if f.opens == 0 && f.began.IsZero() {
		f.began = time.Now()
	}
	if f.limbo {
		return nil, ErrFull
	}
	f.used = time.Since(t.began)
	f.leaveSecond(false)
	joins := f.joins(m)
	if !joins {
		f.unbundle()
	}
	route := f.peer.Route(len(m), f.used)
	if route == peer.AfterUpgraded {
		f.unbundle() // it was sent before
		t.step(f, peer.Event{Kind: peer.Upgrade})
		if route = f.peer.Route(len(m), f.used); route == peer.ByStream {
			t.count(func(s *sums) { s[job.CountMoves]++ })
		}
	}
	switch route {
	case peer.ByStream:
		return f.stream, nil
	case peer.NotNow, peer.AfterUpgraded:
		return nil, ErrFull
	}
	if f.peer.Room() < len(m) { // less than before, if the upgrade has said something
		if f.peer.Unacked() == 0 {
			return nil, f.t.about(f.rank, fmt.Errorf("a message of %d bytes needs a stream, and none could be made: %w",
				len(m), f.peer.Why()))
		}
		return nil, ErrFull
	}
	if !f.up {
		if t.early > 0 && t.early+len(m) > earlyLimit {
			t.step(f, peer.Event{Kind: peer.Warm})
			return nil, ErrFull
		}
		f.early += len(m)
		t.early += len(m)
	}
	if joins {
		f.join(m)
		return nil, nil
	}
	t.step(f, peer.Event{Kind: peer.Send, Msg: append(make([]byte, 0, len(m)), m...)})
	return nil, nil
}
