//go:build ib

package ib

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
)

// costBound is what the software may take for a datagram of 64 bytes in each direction, in
// nanoseconds: everything between the table and the library, and not the library's own time.
const costBound = 1000

// counter is a sink that counts.
type counter struct {
	n    atomic.Int64
	most int64
	done chan struct{} // closed at the last one
}

func (c *counter) Datagram(fabric.Tuple, []byte) {
	if c.n.Add(1) == c.most {
		close(c.done)
	}
}
func (*counter) Accepted(fabric.Stream)     {}
func (*counter) Failed(fabric.Tuple, error) {}

// hollow opens an endpoint whose library does as little as it can: what is sent goes nowhere, and a
// receive has something in it as soon as it is posted.
func hollow(b *testing.B, sink fabric.Sink) *Fabric {
	f, err := Open(config("mlx5_0"), sink)
	require.NoError(b, err)
	b.Cleanup(func() { f.Close() })
	order(b, "hollow mlx5_0 64")
	b.Cleanup(func() { order(b, "hollow mlx5_0 0") })
	return f
}

// cost reports what our side took of each turn, when the library alone takes so many nanoseconds.
func cost(b *testing.B, library float64) {
	ours := float64(b.Elapsed().Nanoseconds())/float64(b.N) - library
	b.ReportMetric(library, "library-ns/op")
	b.ReportMetric(ours, "ours-ns/op")
	if b.N > 10_000 && ours > costBound {
		b.Errorf("%.0f ns for a datagram of 64 bytes, at most %d", ours, costBound)
	}
}

// libraryAlone is how many nanoseconds the library takes for a datagram: the least of some runs, as
// others use the CPU too. A turn says for how many datagrams it was.
func libraryAlone(turn func() int) float64 {
	least := math.Inf(1)
	for range 10 {
		done, began := 0, time.Now()
		for done < 20_000 {
			done += turn()
		}
		least = min(least, float64(time.Since(began).Nanoseconds())/float64(done))
	}
	return least
}

// BenchmarkSend is a datagram of 64 bytes from Post to the library, beside the same work request
// given to the library 32 at a time.
func BenchmarkSend(b *testing.B) {
	f := hollow(b, &counter{})
	m := make([]byte, 64)
	require.NoError(b, f.Post(f.Tuple(), m)) // makes the address handle
	out, batch := &f.out, make([]verbs.Send, pollBatch)
	for i := range batch {
		batch[i] = out.batch[0]
		batch[i].Flags &^= verbs.Signaled
	}
	batch[pollBatch-1].Flags |= verbs.Signaled
	library := libraryAlone(func() int {
		_, err := out.qp.PostSend(batch)
		require.NoError(b, err)
		_, err = out.cq.Poll(out.ends[:])
		require.NoError(b, err)
		return len(batch)
	})
	b.ResetTimer()
	for range b.N {
		if err := f.Post(f.Tuple(), m); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	cost(b, library)
	require.Zero(b, f.Counters().Lost)
}

// BenchmarkSendAll is a datagram of those that PostAll gets sixteen at a time.
func BenchmarkSendAll(b *testing.B) {
	f := hollow(b, &counter{})
	m := make([]byte, 64*sendBatch)
	require.NoError(b, f.Post(f.Tuple(), m[:64]))
	b.ResetTimer()
	for left := b.N; left > 0; left -= sendBatch {
		if err := f.PostAll(f.Tuple(), m[:64*min(left, sendBatch)], 64); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	cost(b, 0)
	require.Zero(b, f.Counters().Lost)
}

// BenchmarkReceive is a datagram of 64 bytes from the library to the sink, its receive posted
// again, beside the library's share of that.
func BenchmarkReceive(b *testing.B) {
	c := &counter{most: int64(b.N), done: make(chan struct{})}
	f := hollow(b, c)
	in := &f.in
	in.mu.Lock() // its own goroutine stays out
	defer in.mu.Unlock()
	require.NoError(b, f.addReceives(pollBatch))
	again := in.again[:]
	library := libraryAlone(func() int {
		n, err := in.cq.Poll(in.ends[:])
		require.NoError(b, err)
		for i := range again[:n] {
			again[i] = in.rings.of(int(in.ends[i].ID)).request(int(in.ends[i].ID))
		}
		_, err = f.out.qp.PostReceive(again[:n])
		require.NoError(b, err)
		return n
	})
	b.ResetTimer()
	for c.n.Load() < c.most {
		n, err := in.cq.Poll(in.ends[:])
		require.NoError(b, err)
		f.deliver(in.ends[:n])
	}
	b.StopTimer()
	<-c.done
	cost(b, library)
}
