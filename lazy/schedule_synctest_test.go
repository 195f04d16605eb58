package lazy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/fabric/mem"
	"ibrun/internal/job"
	"ibrun/lazy/peer"
	"ibrun/test/waitfor"
)

var (
	schedules   = flag.Int("schedules", scale.schedules, "schedules of real tables over a device; three times that in virtual time")
	oneSchedule = flag.Uint64("seed", 0, "run only this one")
)

// schedule is a randomized schedule test as lazy/peer has, with real tables over a real fabric: who
// sends how much to whom, which pairs rest meanwhile and who starts again comes from a seed. Who
// comes first in the end is the machine's.
type schedule struct {
	*world
	seed     uint64
	count    int // messages of each epoch to each rank
	most     int // bytes of one
	rests    int // one message in so many is followed by a rest
	flushes  int
	restarts int
	at       int           // restarts that got the address of the epoch before
	pause    time.Duration // of a sender before a message, at most
	chaos    func()        // what happens to the networks meanwhile; nil: nothing
	senders  sync.WaitGroup
	takers   sync.WaitGroup
	ledger   ledger
}

// draw makes the schedule of a seed. In some of those in which ranks start again there are no
// streams: a stream that breaks ends its pair for good, and a device takes ten seconds to find that
// out, which only virtual time has.
func draw(t testing.TB, seed uint64, virtual bool, open func(fabric.Sink) (fabric.Fabric, error)) *schedule {
	r := rand.New(rand.NewPCG(seed, 3))
	of := func(list ...int) int { return list[r.IntN(len(list))] }
	s := &schedule{
		seed: seed, count: of(5, 20, 40, 120), most: of(40, 600, 3000, 9000, 30000), rests: of(2, 5, 10, 1000),
		flushes: of(3, 1000),
		ledger:  ledger{flows: map[line]*flow{}, news: make(chan struct{}, 1)},
	}
	ranks, threshold, live := of(2, 2, 2, 5), of(0, 4, 4, 16), of(0, 1, 2)
	if seed%3 == 0 {
		if s.restarts = of(1, 2, 3); seed%2 == 0 || !virtual {
			threshold, s.most = 0, min(s.most, 600)
		}
	}
	s.world = newWorld(t, uint32(ranks), 1, open)
	// jobs side by side have keys of their own, and one's queue pair may be another's next
	s.key = fabric.DeriveKey([32]byte(binary.BigEndian.AppendUint64(make([]byte, 24), seed)))
	s.config = func(c *Config) { c.Worth, c.MaxLive = worth(threshold), live }
	return s
}

// line is what one epoch of a rank sends to another rank.
type line struct {
	from  uint32
	epoch uint16
	to    uint32
}

type flow struct {
	sent    int // taken by Send, or about to be
	excused int // those before it may be lost: an error said so, or the receiver is another
	got     []bool
	last    int
}

// ledger is what was sent and what has come.
type ledger struct {
	mu    sync.Mutex
	flows map[line]*flow
	total int           // that have come
	news  chan struct{} // capacity 1: one more has come
}

func (l *ledger) of(k line) *flow {
	if l.flows[k] == nil {
		l.flows[k] = &flow{last: -1}
	}
	return l.flows[k]
}

// begin gives the next message its number.
func (l *ledger) begin(k line) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.of(k)
	f.sent++
	f.got = append(f.got, false)
	return f.sent - 1
}

// excuse says that what was sent so far, but for the newest few, may be lost.
func (l *ledger) excuse(but int, which func(line) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, f := range l.flows {
		if which(k) {
			f.excused = max(f.excused, f.sent-but)
		}
	}
}

// came holds a message against what was promised.
func (l *ledger) came(k line, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.flows[k]
	switch {
	case f == nil || n >= f.sent:
		return fmt.Errorf("message %d of %v was never sent", n, k)
	case f.got[n]:
		return fmt.Errorf("message %d of %v came twice", n, k)
	case n < f.last:
		return fmt.Errorf("message %d of %v came after %d", n, k, f.last)
	}
	f.got[n], f.last = true, n
	l.total++
	select {
	case l.news <- struct{}{}:
	default:
	}
	return nil
}

// missing is a message that has not come and has no excuse.
func (l *ledger) missing(lives func(line) bool) (what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, f := range l.flows {
		for n := f.excused; n < f.sent && lives(k); n++ {
			if !f.got[n] {
				return fmt.Sprintf("message %d of %d of %v", n, f.sent, k)
			}
		}
	}
	return ""
}

const scheduleHead = 14

// text is the message of a number: it shows whose and which it is.
func (k line) text(n, size int) []byte {
	m := make([]byte, scheduleHead+size)
	binary.BigEndian.PutUint32(m, k.from)
	binary.BigEndian.PutUint16(m[4:], k.epoch)
	binary.BigEndian.PutUint32(m[6:], k.to)
	binary.BigEndian.PutUint32(m[10:], uint32(n))
	for i := range m[scheduleHead:] {
		m[scheduleHead+i] = byte(n*7 + i)
	}
	return m
}

// begin starts what one epoch of a rank does.
func (s *schedule) begin(ctx context.Context, rank uint32, epoch uint16) {
	table := s.startRank(rank, epoch)
	s.takers.Go(func() { s.take(ctx, table, rank) })
	for to := range s.layout.Ranks() {
		if to != rank {
			s.senders.Go(func() { s.send(ctx, table, line{rank, epoch, to}) })
		}
	}
}

// send is one sender.
func (s *schedule) send(ctx context.Context, table *Table, k line) {
	r := rand.New(rand.NewPCG(s.seed, uint64(k.from)<<32|uint64(k.epoch)<<16|uint64(k.to)))
	for range s.count {
		if s.pause > 0 {
			<-time.After(time.Duration(r.Int64N(int64(s.pause))))
		}
		m := k.text(s.ledger.begin(k), r.IntN(s.most))
		due := table.dueToMove(k.to)
		if !s.until(table, k, 1, func() error { return table.Send(ctx, k.to, m) }) {
			return
		}
		if due() {
			s.t.Errorf("seed %d: %v: a message that belongs on the stream went as a datagram", s.seed, k)
		}
		rest := r.IntN(s.rests) == 0
		if (rest || r.IntN(s.flushes) == 0) && !s.until(table, k, 0,
			func() error { return table.remotePeer(k.to).flush(ctx) }) {
			return
		}
		if rest {
			table.rest(k.to)
		}
	}
	s.until(table, k, 0, func() error { return table.remotePeer(k.to).flush(ctx) })
}

// until does something that may fail because the other rank has started again, which excuses what
// was lost by it. It reports false when this rank itself has ended, or the pair for good.
func (s *schedule) until(table *Table, k line, but int, do func() error) bool {
	for {
		err := do()
		var gone *PeerError
		switch {
		case err == nil:
			return true
		case errors.Is(err, ErrClosed) && s.restarts > 0:
			return false
		case !errors.As(err, &gone) || s.restarts == 0:
			s.t.Errorf("seed %d: %v: %v", s.seed, k, err)
			return false
		}
		s.ledger.excuse(but, func(l line) bool { return l == k })
		if table.ended(k.to) {
			s.ledger.excuse(0, func(l line) bool { return l == k })
			return false
		}
	}
}

// ended reports whether a pair has ended for good.
func (t *Table) ended(rank uint32) bool {
	t.fmu.Lock()
	defer t.fmu.Unlock()
	return t.remotePeer(rank).dead != nil
}

// dueToMove returns a function to be called after a Send. The function reports whether the sender should have moved to
// its stream and did not.
func (t *Table) dueToMove(rank uint32) func() bool {
	due := func() (*stream, bool) {
		t.fmu.Lock()
		defer t.fmu.Unlock()
		f := t.remotePeer(rank)
		return f.stream, f.peer.Due()
	}
	before, was := due()
	return func() bool {
		after, is := due()
		return was && is && before == after
	}
}

// rest closes the pair as MaxLive would, if it is idle.
func (t *Table) rest(rank uint32) {
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if !t.stopped {
		t.remotePeer(rank).rest()
	}
}

// take receives all that comes for one epoch.
func (s *schedule) take(ctx context.Context, table *Table, rank uint32) {
	newest := map[uint32]uint16{}
	for {
		m, err := table.Recv(ctx)
		var gone *PeerError
		if errors.As(err, &gone) && s.restarts > 0 {
			continue // an alarm: what was on a stream is lost
		}
		if err != nil {
			if !errors.Is(err, ErrClosed) {
				s.t.Errorf("seed %d: rank %d: %v", s.seed, rank, err)
			}
			return
		}
		if len(m.Body) < scheduleHead {
			s.t.Errorf("seed %d: rank %d got %d bytes of %d", s.seed, rank, len(m.Body), m.From)
			return
		}
		k := line{binary.BigEndian.Uint32(m.Body), binary.BigEndian.Uint16(m.Body[4:]),
			binary.BigEndian.Uint32(m.Body[6:])}
		n := int(binary.BigEndian.Uint32(m.Body[10:]))
		switch {
		case k.from != m.From || k.to != rank || !bytes.Equal(m.Body, k.text(n, len(m.Body)-scheduleHead)):
			err = fmt.Errorf("message %d of %v is not what was sent, or came to %d", n, k, rank)
		case k.epoch < newest[k.from]:
			err = fmt.Errorf("message %d of %v came after one of epoch %d", n, k, newest[k.from])
		default:
			err = s.ledger.came(k, n)
		}
		newest[k.from] = k.epoch
		if err != nil {
			s.t.Errorf("seed %d: %v", s.seed, err)
		}
	}
}

// again ends a rank without a word and starts it as its next epoch.
func (s *schedule) again(ctx context.Context, rank uint32) {
	old := s.table(rank)
	require.NoError(s.t, old.Close())
	s.ledger.excuse(0, func(k line) bool { return k.to == rank })
	s.begin(ctx, rank, old.cfg.Epoch+1)
	if s.table(rank).Tuple() == old.Tuple() {
		s.at++
	}
}

// run is the whole of it.
func (s *schedule) run() {
	ctx := within(s.t)
	ranks := s.layout.Ranks()
	for r := range ranks {
		s.begin(ctx, r, 1)
	}
	if s.chaos != nil {
		s.senders.Go(s.chaos)
	}
	for n := range s.restarts {
		for quiet := false; !quiet && s.ledger.received() < (n+1)*s.count/4; {
			select {
			case <-s.ledger.news:
			case <-time.After(time.Second): // the pairs that are left have no more to say
				quiet = true
			}
		}
		s.again(ctx, uint32(s.seed+uint64(n))%ranks)
	}
	s.senders.Wait()
	lives := func(k line) bool { return s.table(k.from).cfg.Epoch == k.epoch }
	waitfor.Require(s.t, fmt.Sprintf("seed %d: all has come", s.seed), func() bool { return s.ledger.missing(lives) == "" })
	// What is open on one side is open on the other, and closes when asked.
	waitfor.Require(s.t, fmt.Sprintf("seed %d: all pairs rest", s.seed), s.atRest)
	for r := range ranks {
		require.NoError(s.t, s.table(r).Close())
	}
	s.takers.Wait()
	require.Empty(s.t, s.ledger.missing(lives), "seed %d", s.seed)
}

func (l *ledger) received() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// atRest asks all pairs to rest, and says whether they do.
func (s *schedule) atRest() bool {
	all := true
	for r := range s.layout.Ranks() {
		for to := range s.layout.Ranks() {
			if to == r {
				continue
			}
			t := s.table(r)
			if t.ended(to) || s.table(to).ended(r) {
				continue
			}
			t.rest(to)
			t.fmu.Lock()
			f := t.remotePeer(to)
			all = all && f.peer.State() == peer.Idle && f.stream == nil
			t.fmu.Unlock()
		}
	}
	return all
}

// TestSchedules runs the schedules over a network in this process, in virtual time.
func TestSchedules(t *testing.T) {
	faults := mem.Faults{Loss: 0.3, Dup: 0.1, Reorder: 0.1, Delay: 100 * time.Microsecond,
		Jitter: 300 * time.Microsecond}
	runSchedules(t, 3**schedules, 1, func(t *testing.T, seed uint64) *schedule {
		var s *schedule
		synctest.Test(t, func(t *testing.T) {
			s = draw(t, seed, true, overMem(mem.New(seed, faults)))
			s.run()
		})
		return s
	})
}

// runSchedules runs so many schedules, several at a time, and checks that there were some. It
// returns how many ranks started again at their old address.
func runSchedules(t *testing.T, count, shards int, run func(t *testing.T, seed uint64) *schedule) (at int) {
	if *oneSchedule > 0 {
		return run(t, *oneSchedule).at
	}
	var mu sync.Mutex
	var sum sums
	again := 0
	t.Run("shard", func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				for seed := 1 + shard; seed <= count && !t.Failed(); seed += shards {
					s := run(t, uint64(seed))
					mu.Lock()
					again += s.restarts
					at += s.at
					for r := range s.layout.Ranks() {
						tally := s.table(r).Tally()
						for i, n := range tally.Sum {
							sum[i] += n
						}
					}
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d messages, %d connections, %d of them again, %d streams, %d datagrams, %d sent again, %d ranks started "+
		"again, %d of them at the same address",
		sum[job.CountMessages], sum[job.CountConnections], sum[job.CountReopened], sum[job.CountStreams],
		sum[job.CountDatagrams], sum[job.CountRetransmits], again, at)
	for _, c := range []job.Count{job.CountReopened, job.CountStreams, job.CountMoves, job.CountRetransmits} {
		require.NotZero(t, sum[c])
	}
	require.NotZero(t, again)
	return at
}
