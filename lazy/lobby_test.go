package lazy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
	"ibrun/test/waitfor"
)

// stranger opens a stream from an address to a rank's port, says something, and
// waits for the end of it.
func stranger(ctx context.Context, from, to string, says []byte) error {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err = c.Write(says); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

// listening is where a table takes streams.
func listening(t *testing.T, table *Table) string {
	offer, err := table.fabric.Offer()
	require.NoError(t, err)
	return netip.AddrPortFrom(table.Tuple().AddrPort().Addr(), binary.BigEndian.Uint16(offer)).String()
}

// Strangers who open streams and say nothing take a bounded number of descriptors,
// of each source and in all: the oldest of the busiest source has to go.
func TestLobbyIsBounded(t *testing.T) {
	w := newWorld(t, 2, 1, overUDP).start()
	at := listening(t, w.table(1))
	ctx, cancel := context.WithCancel(t.Context())
	var gone atomic.Int64
	const each = 200
	sources := []string{"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"}
	for i, from := range sources {
		for range each {
			w.wg.Go(func() {
				if err := stranger(ctx, from, at, []byte{1}); ctx.Err() == nil && err != nil {
					gone.Add(1)
				}
			})
		}
		room := min((i+1)*guestsOfOne, guestsOfAll)
		waitfor.Require(t, "all have gone for which there is no room", func() bool {
			return gone.Load() == int64((i+1)*each-room)
		})
	}
	w.table(1).lobby.mu.Lock()
	require.Len(t, w.table(1).lobby.guests, guestsOfAll)
	require.Len(t, w.table(1).lobby.sources(), len(sources), "a quiet source is not driven out by a busy one")
	w.table(1).lobby.mu.Unlock()
	cancel()
	waitfor.Require(t, "all leave", w.table(1).expectNobody)
}

func (t *Table) expectNobody() bool {
	t.lobby.mu.Lock()
	defer t.lobby.mu.Unlock()
	return len(t.lobby.guests) == 0
}

// A peer gets its stream while strangers come from its own address and others as
// fast as they can, those who are silent and those who talk nonsense.
func TestPeerAmongStrangers(t *testing.T) {
	const peers = uint32(8)
	w := newWorld(t, peers+1, 1, overUDP).start()
	at := listening(t, w.table(peers))
	ctx, cancel := context.WithCancel(t.Context())
	var came atomic.Int64
	for i := range 300 { // more at a time than there is room for
		from := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}[i%3]
		says := [][]byte{{1}, make([]byte, 53)}[i%2]
		w.wg.Go(func() {
			for ctx.Err() == nil {
				err := stranger(ctx, from, at, says)
				if ctx.Err() == nil && !errors.Is(err, io.EOF) && !isReset(err) &&
					!errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s: %v", from, err)
					return
				}
				came.Add(1)
			}
		})
	}
	defer cancel()
	waitfor.Require(t, "strangers come", func() bool { return came.Load() > 500 })
	before := came.Load()
	m := make([]byte, 1<<20)
	for rank := range peers {
		require.NoError(t, w.table(rank).Send(ctx, peers, append(m, byte(rank))))
		w.receivesFrom(ctx, peers, rank, append(m, byte(rank)))
	}
	// A proof that came too late, on a busy machine, has its stream opened once more.
	require.GreaterOrEqual(t, w.table(peers).Tally().Sum[job.CountStreams], uint64(peers))
	waitfor.Require(t, "they still come", func() bool { return came.Load() > before })
}
