package mem

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/fabric/fabrictest"
)

func TestLaw(t *testing.T) {
	for name, f := range map[string]Faults{
		"clean": {},
		"nasty": {Loss: 0.3, Dup: 0.2, Reorder: 0.2, Delay: 200 * time.Microsecond, Jitter: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			n := New(1, f)
			fabrictest.Run(t, func(_ *testing.T, s fabric.Sink) fabric.Fabric { return n.Open(s) }, fabrictest.Options{Lossy: name == "nasty"})
		})
	}
}

// counter is a sink that only counts.
type counter struct{ n atomic.Int64 }

func (c *counter) Datagram(fabric.Tuple, []byte) { c.n.Add(1) }
func (c *counter) Accepted(s fabric.Stream)      { s.Close() }

// The rates are what was asked for, a seed gives the same faults again, and
// time is the test's own.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := func(seed uint64) int64 {
			n := New(seed, Faults{Loss: 0.25, Dup: 0.1, Delay: time.Second})
			var c counter
			a, b := n.Open(&counter{}), n.Open(&c)
			for range 1000 {
				require.NoError(t, a.Post(b.Tuple(), []byte("x")))
			}
			synctest.Wait()
			require.Zero(t, c.n.Load(), "nothing arrives before its time")
			<-time.After(time.Second)
			synctest.Wait()
			got := c.n.Load()
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
			return got
		}
		require.Equal(t, run(7), run(7))
		require.NotEqual(t, run(7), run(8))
		require.InDelta(t, 825, run(7), 80)
	})
}

func TestCut(t *testing.T) {
	n := New(1, Faults{})
	x := fabrictest.NewBox()
	a, b := n.Open(fabrictest.NewBox()), n.Open(x)
	defer a.Close()
	defer b.Close()
	offer, err := b.Offer()
	require.NoError(t, err)
	s, err := a.Dial(t.Context(), b.Tuple(), offer)
	require.NoError(t, err)
	n.Cut(a.Tuple(), b.Tuple(), true)
	_, err = s.Write(make([]byte, 1<<20))
	require.Error(t, err)
	_, err = a.Dial(t.Context(), b.Tuple(), offer)
	require.Error(t, err)
	n.Cut(a.Tuple(), b.Tuple(), false)
	s, err = a.Dial(t.Context(), b.Tuple(), offer)
	require.NoError(t, err)
	s.Close()
}
