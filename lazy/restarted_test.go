package lazy

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/fabric/mem"
	"ibrun/internal/job"
	"ibrun/lazy/peer"
	"ibrun/test/waitfor"
)

// restarting is a job of two nodes with two ranks each, whose ranks start again.
func restarting(t *testing.T, streams bool) (*world, func(rank uint32), func(rank uint32) *Table) {
	w := newWorld(t, 2, 2, overMem(mem.New(3, mem.Faults{})))
	w.config = func(c *Config) { c.Restarts, c.Streams = true, streams }
	w.start()
	starts := map[uint32]uint8{}
	floor := func(rank uint32) { // the agents' word, before the new start
		starts[rank]++
		w.mu.Lock()
		for r := range w.layout.Ranks() {
			delete(w.pairs, [2]uint32{min(r, rank), max(r, rank)})
		}
		w.parked[rank] = nil
		w.mu.Unlock()
		for r := range w.layout.Ranks() {
			if r != rank {
				w.table(r).Restarted(rank, job.Epoch(starts[rank], 1), false)
			}
		}
	}
	again := func(rank uint32) *Table {
		table := w.startRank(rank, job.Epoch(starts[rank], 1))
		w.mu.Lock()
		waiting := w.parked[rank]
		delete(w.parked, rank)
		w.mu.Unlock()
		for _, pair := range waiting {
			w.pair(pair[0], pair[1])
		}
		return table
	}
	return w, floor, again
}

func (w *world) send(ctx context.Context, from, to uint32, text string) error {
	return w.table(from).Send(ctx, to, []byte(text))
}

// Each peer hears once that a rank was restarted, in whatever call finds it first, and then talks
// to the new start: to one of its own node, and of another by datagrams or by a stream.
func TestPeersOfARestartedRank(t *testing.T) {
	for name, streams := range map[string]bool{"datagrams": false, "streams": true} {
		t.Run(name, func(t *testing.T) {
			w, floor, again := restarting(t, streams)
			ctx := within(t)
			const victim = 3
			for peer := range uint32(victim) {
				require.NoError(t, w.send(ctx, peer, victim, "old"))
				_, err := w.table(victim).RecvFrom(ctx, peer)
				require.NoError(t, err)
				require.NoError(t, w.send(ctx, victim, peer, "of the old start"))
				require.NoError(t, w.table(victim).Flush(ctx))
			}
			w.receives(ctx, 1, []byte("of the old start")) // it came before
			w.table(victim).Close()
			floor(victim)
			want := &RestartError{Rank: victim, Restarts: 1}

			require.Equal(t, want, w.send(ctx, 0, victim, "to the old start"))
			_, err := w.table(1).RecvFrom(ctx, 2)
			require.Equal(t, want, err, "whoever is waited for")
			w.table(2).Restarts()

			again(victim)
			for peer := range uint32(victim) {
				require.NoError(t, w.send(ctx, peer, victim, "new"), "rank %d", peer)
				w.receivesFrom(ctx, victim, peer, []byte("new"))
				require.NoError(t, w.send(ctx, victim, peer, "of the new start"))
				w.receivesFrom(ctx, peer, victim, []byte("of the new start"))
			}
		})
	}
}

// A receiver that waits is woken by a restart, and a sender whose peer has vanished waits for the
// agents' word.
func TestWaitingForARestart(t *testing.T) {
	w, floor, _ := restarting(t, true)
	ctx := within(t)
	for _, peer := range []uint32{0, 2} {
		require.NoError(t, w.send(ctx, peer, 3, "hello"))
		_, err := w.table(3).RecvFrom(ctx, peer)
		require.NoError(t, err)
	}
	w.mu.Lock()
	runs := make(chan struct{}) // nobody answers for rank 3
	defer close(runs)
	w.stopped = map[uint32]chan struct{}{3: runs}
	w.pairs[[2]uint32{2, 3}] = true
	w.mu.Unlock()
	w.table(3).Close()
	asked := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.asks
	}
	before, got := asked(), make(chan error, 3)
	for _, peer := range []uint32{0, 2} {
		go func() {
			var err error
			for err == nil {
				err = w.send(ctx, peer, 3, "to nobody")
			}
			got <- err
		}()
	}
	go func() {
		_, err := w.table(1).Recv(ctx)
		got <- err
	}()
	waitfor.Require(t, "a sender asks what became of it", func() bool { return asked() > before })
	require.Empty(t, got, "nobody has said")
	floor(3)
	for range 3 {
		require.Equal(t, &RestartError{Rank: 3, Restarts: 1}, <-got)
	}
}

// One answer does not count for two ends of streams: the peer may have ended, started again and
// ended again while a question is open. An answer from before the end does not say that it runs.
func TestEndWhileAQuestionIsOpen(t *testing.T) {
	w, floor, again := restarting(t, true)
	ctx := within(t)
	require.NoError(t, w.send(ctx, 0, 3, "hello"))
	_, err := w.table(3).RecvFrom(ctx, 0)
	require.NoError(t, err)
	runs := make(chan struct{}) // nobody answers for rank 3
	defer close(runs)
	w.mu.Lock()
	w.stopped = map[uint32]chan struct{}{3: runs}
	w.mu.Unlock()
	table := w.table(0)
	streamEnds := func() {
		table.fmu.Lock()
		defer table.fmu.Unlock()
		table.remotePeer(3).doubt(ErrEnded, false)
	}
	streamEnds()
	w.table(3).Close()
	floor(3)
	again(3)
	streamEnds()
	table.stats.Lock()
	defer table.stats.Unlock()
	require.EqualValues(t, 1, table.stats.sums[job.CountChecks], "the agent would answer both at once")
}

// A rank that ends well in such a job is not waited for: the agent says so.
func TestEndOfARankThatMayRestart(t *testing.T) {
	for name, streams := range map[string]bool{"datagrams": false, "streams": true} {
		t.Run(name, func(t *testing.T) {
			w, _, _ := restarting(t, streams)
			ctx := within(t)
			for _, peer := range []uint32{0, 2} {
				require.NoError(t, w.send(ctx, peer, 3, "hello"))
				_, err := w.table(3).RecvFrom(ctx, peer)
				require.NoError(t, err)
			}
			w.end(3, ErrEnded)
			for _, peer := range []uint32{0, 2} {
				var err error
				for err == nil {
					if err = w.send(ctx, peer, 3, "to nobody"); err == nil {
						err = w.table(peer).Flush(ctx)
					}
				}
				var gone *PeerError
				require.ErrorAs(t, err, &gone)
				require.Equal(t, 3, gone.Rank)
				require.ErrorIs(t, err, ErrEnded, "rank %d", peer)
			}
		})
	}
}

// A rank that joins later knows of earlier restarts, and does not hear of them as news.
func TestKnownRestarts(t *testing.T) {
	w, floor, again := restarting(t, false)
	ctx := within(t)
	w.table(3).Close()
	floor(3)
	again(3)
	w.table(0).Close()
	floor(0)
	again(0).Restarted(3, job.Epoch(1, 1), true)
	require.NoError(t, w.send(ctx, 0, 3, "hello"))
	_, err := w.table(3).Recv(ctx)
	require.Equal(t, &RestartError{Rank: 0, Restarts: 1}, err)
	w.receives(ctx, 3, []byte("hello"))
	require.NoError(t, w.send(ctx, 3, 0, "hello"))
	_, err = w.table(0).Recv(ctx)
	require.NoError(t, err)
}

// What an old start has sent by a stream is dropped if it comes late, and if it was not received
// when the program hears of the restart.
func TestStaleMessages(t *testing.T) {
	in, ctx := newInbox(99, 0), within(t)
	in.put(Message{3, []byte("old")}, 0)
	in.put(Message{3, []byte("old, too")}, 0)
	in.restarted(3, &RestartError{3, 1}, false)
	in.put(Message{3, []byte("late")}, 0)
	in.put(Message{3, []byte("new")}, 1)
	m, err := in.take(ctx, 3, false)
	require.NoError(t, err)
	require.Equal(t, "old", string(m.Body))
	require.Equal(t, &RestartError{3, 1}, in.claimOf(3))
	require.Nil(t, in.claimOf(3), "once")
	m, err = in.take(ctx, 0, true)
	require.NoError(t, err)
	require.Equal(t, "new", string(m.Body))
}

// The first sender to a restarted rank may create the remotePeer while another goroutine holds Table.fmu and performs
// effects. Creating it must not change the effects, whose memory all Peers share.
func TestNewPeerOfARestartedRank(t *testing.T) {
	w, floor, _ := restarting(t, false)
	floor(3)
	table := w.table(0)
	f := table.remotePeer(2)
	table.fmu.Lock()
	defer table.fmu.Unlock()
	effects := f.peer.Step(0, peer.Event{Kind: peer.Warm})
	require.Equal(t, peer.Resolve, effects[0].Kind)
	require.Equal(t, job.Epoch(1, 1), table.remotePeer(3).peer.Epoch())
	require.Equal(t, peer.Resolve, effects[0].Kind, "nobody would ask the agent")
}
