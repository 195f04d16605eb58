package lazy

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
	"ibrun/test/waitfor"
)

// bundled returns the tables of two ranks. The first one sends small messages in bundles.
func bundled(t *testing.T, wait time.Duration, over string, limit Worth) (a, b *Table) {
	w := newWorld(t, 2, 1, fabrics()[over])
	w.config = func(c *Config) {
		if c.Rank == 0 {
			c.Bundle, c.Worth = wait, limit
		}
	}
	w.start()
	return w.table(0), w.table(1)
}

// Small messages share packets. They arrive in order with longer messages and with messages on a stream.
func TestBundles(t *testing.T) {
	const count = 1000
	size := func(_, n uint32) int {
		switch {
		case n == count/2:
			return 100_000
		case n%100 == 99:
			return 2000
		}
		return int(n % 60)
	}
	for over := range fabrics() {
		t.Run(over, func(t *testing.T) {
			a, b := bundled(t, time.Hour, over, Worth{})
			ctx := within(t)
			var all sync.WaitGroup
			all.Go(func() { takeInOrder(ctx, t, b, 1, count, size) })
			for n := range uint32(count) {
				m := payload(0, 1, n, size(0, n))
				if n%2 > 0 && n < count/2 && a.TrySend(1, m) == nil { // the streams of mem have no such call
					continue
				}
				require.NoError(t, a.Send(ctx, 1, m))
			}
			require.NoError(t, a.Flush(ctx), "nobody waits for an hour")
			all.Wait()
		})
	}
}

// Bundled messages that wait when the pair moves to a stream arrive before the messages on the stream.
func TestBundleBeforeAMove(t *testing.T) {
	a, b := bundled(t, time.Hour, "mem", worth(1))
	ctx := within(t)
	words := []string{"connects", "moves", "is behind"}
	for i, count := range []job.Count{job.CountConnections, job.CountStreams, job.CountMoves} {
		require.NoError(t, a.Send(ctx, 1, []byte(words[i])))
		waitfor.Require(t, words[i], func() bool { return a.Tally().Sum[count] > 0 })
	}
	for _, want := range words {
		m, err := b.Recv(ctx)
		require.NoError(t, err)
		require.Equal(t, want, string(m.Body))
	}
}

// Bundled messages need few packets. When all are received, no bytes count as untaken, so the
// window stays open.
func TestBundlesShareAPacket(t *testing.T) {
	a, b := bundled(t, time.Hour, "udp", Worth{})
	ctx := within(t)
	const count = 1000 // too few to move the pair to a stream
	for n := range uint32(count) {
		require.NoError(t, a.Send(ctx, 1, payload(0, 1, n, 28)))
	}
	require.NoError(t, a.Flush(ctx))
	for range count {
		_, err := b.Recv(ctx)
		require.NoError(t, err)
	}
	tally := a.Tally()
	require.Less(t, tally.Sum[job.CountDatagrams]-tally.Sum[job.CountRetransmits], uint64(count/20))
	f := b.fars[0]
	b.fmu.Lock()
	defer b.fmu.Unlock()
	require.Zero(t, f.peer.Untaken())
}

// A message waits in a bundle for at most Config.Bundle.
func TestBundleIsDue(t *testing.T) {
	a, b := bundled(t, time.Millisecond, "mem", Worth{})
	ctx := within(t)
	for range 3 { // the later messages start the timer again
		require.NoError(t, a.Send(ctx, 1, []byte("small")))
		m, err := b.Recv(ctx)
		require.NoError(t, err)
		require.Equal(t, "small", string(m.Body))
	}
}

// Messages that wait in a bundle are lost if the peer is restarted, like unacknowledged messages.
func TestBundleForAnOldStart(t *testing.T) {
	w, floor, again := restarting(t, false)
	a := w.table(0)
	a.cfg.Bundle = time.Hour
	ctx := within(t)
	const victim = 3
	require.NoError(t, w.send(ctx, 0, victim, "first"))
	require.NoError(t, a.Flush(ctx))
	require.NoError(t, w.send(ctx, 0, victim, "old"))
	w.table(victim).Close()
	floor(victim)
	again(victim)
	require.Equal(t, &RestartError{Rank: victim, Restarts: 1}, w.send(ctx, 0, victim, "refused"))
	require.NoError(t, w.send(ctx, 0, victim, "new"))
	require.NoError(t, a.Flush(ctx))
	w.receivesFrom(ctx, victim, 0, []byte("new"))
}
