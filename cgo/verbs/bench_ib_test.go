//go:build ib

package verbs_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
)

// BenchmarkCrossing is the floor of all that follows: a call into C that finds
// an empty queue.
func BenchmarkCrossing(b *testing.B) {
	e := open(b, benchDevice(b))
	out := make([]verbs.Completion, 32)
	b.ReportAllocs()
	for b.Loop() {
		if n, err := e.cq.Poll(out); n != 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkPostReceive posts in batches of one and more; ns/msg is what a
// message costs of it.
func BenchmarkPostReceive(b *testing.B) {
	for _, size := range []int{1, 4, 32} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			e := open(b, benchDevice(b))
			const room = 8192
			q := e.queuePair(b, verbs.UD, func(cfg *verbs.QPConfig) { cfg.MaxReceive = room })
			batch := make([]verbs.Receive, size)
			for i := range batch {
				batch[i] = e.at(uint64(i), i*64, 64)
			}
			free := room
			b.ReportAllocs()
			for b.Loop() {
				if free < size {
					b.StopTimer()
					require.NoError(b, q.Modify(verbs.QPState{State: verbs.Reset})) // forgets what is posted
					require.NoError(b, toInit(q, verbs.UD))
					free = room
					b.StartTimer()
				}
				if _, err := q.PostReceive(batch); err != nil {
					b.Fatal(err)
				}
				free -= size
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/msg")
		})
	}
}

func benchDevice(b *testing.B) string {
	devices, err := library(b).Devices()
	require.NoError(b, err)
	require.NotEmpty(b, devices)
	return devices[0].Name
}
