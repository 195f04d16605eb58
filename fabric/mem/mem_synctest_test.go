package mem

import (
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/fabric/fabrictest"
)

func TestConformance(t *testing.T) {
	for name, f := range map[string]Faults{
		"clean": {},
		"nasty": {Loss: 0.3, Dup: 0.2, Reorder: 0.2, Delay: 200 * time.Microsecond, Jitter: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			n := New(1, f)
			fabrictest.Run(t, func(_ *testing.T, s fabric.Sink) fabric.Fabric { return n.Open(s) },
				fabrictest.Options{Lossy: name == "nasty"})
		})
	}
}

// diary is a sink that writes down what came and when.
type diary struct {
	began time.Time
	mu    sync.Mutex
	pages pages
}

type pages struct {
	lines   []string
	at      []time.Duration
	streams []fabric.Stream
}

func (d *diary) Datagram(_ fabric.Tuple, b []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages.lines, d.pages.at = append(d.pages.lines, string(b)), append(d.pages.at, time.Since(d.began))
}
func (d *diary) Accepted(s fabric.Stream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages.streams = append(d.pages.streams, s)
}
func (d *diary) read() pages {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pages
}
func (d *diary) newest() net.Conn {
	all := d.read().streams
	return all[len(all)-1].(net.Conn)
}

// in runs a test in virtual time with a network of two endpoints.
func in(t *testing.T, seed uint64, faults Faults, test func(t *testing.T, n *Network, a, b *Fabric, at *diary)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n, d := New(seed, faults), &diary{began: time.Now()}
		a, b := n.Open(&diary{}), n.Open(d)
		test(t, n, a, b, d)
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
}

// pass lets virtual time go by, and all that is due happen.
func pass(d time.Duration) {
	synctest.Wait()
	<-time.After(d)
	synctest.Wait()
}

func post(t *testing.T, from *Fabric, to fabric.Tuple, count int) {
	t.Helper()
	for i := range count {
		require.NoError(t, from.Post(to, []byte(strconv.Itoa(i))))
	}
}

func TestCleanIsInOrderAndAtOnce(t *testing.T) {
	in(t, 1, Faults{}, func(t *testing.T, n *Network, a, b *Fabric, d *diary) {
		post(t, a, b.Tuple(), 1000)
		synctest.Wait()
		require.Len(t, d.read().lines, 1000)
		for i, line := range d.read().lines {
			require.Equal(t, strconv.Itoa(i), line)
			require.Zero(t, d.read().at[i])
		}
		require.Equal(t, Counters{Posted: 1000, Delivered: 1000}, n.Counters())
	})
}

func TestDelayKeepsOrder(t *testing.T) {
	in(t, 1, Faults{Delay: time.Second}, func(t *testing.T, _ *Network, a, b *Fabric, d *diary) {
		post(t, a, b.Tuple(), 1000)
		pass(time.Second - 1)
		require.Empty(t, d.read().lines, "nothing arrives before its time")
		pass(1)
		require.Len(t, d.read().lines, 1000)
		for i, line := range d.read().lines {
			require.Equal(t, strconv.Itoa(i), line)
		}
	})
}

// The rates are what was asked for, a seed gives the same faults at the same
// times again, and one pair's luck is its own.
func TestSeed(t *testing.T) {
	nasty := Faults{Loss: 0.25, Dup: 0.1, Reorder: 0.2, Delay: time.Second, Jitter: time.Second}
	run := func(seed uint64, others int) (d pages) {
		in(t, seed, nasty, func(t *testing.T, n *Network, a, b *Fabric, at *diary) {
			more := n.Open(&diary{})
			for i := range 1000 {
				post(t, more, a.Tuple(), others)
				post(t, a, more.Tuple(), others)
				require.NoError(t, a.Post(b.Tuple(), []byte(strconv.Itoa(i))))
			}
			pass(time.Minute)
			require.NoError(t, more.Close())
			if c := n.Counters(); others == 0 {
				require.InDelta(t, 250, c.Lost, 60)
				require.InDelta(t, 75, c.Doubled, 30)
				require.InDelta(t, 150, c.Reordered, 45)
				require.Equal(t, c.Posted-c.Lost+c.Doubled, c.Delivered)
			}
			d = at.read()
		})
		return d
	}
	once, again, crowd, other := run(7, 0), run(7, 0), run(7, 2), run(8, 0)
	require.InDelta(t, 825, len(once.lines), 80)
	require.Equal(t, once.lines, again.lines)
	require.Equal(t, once.at, again.at)
	require.Equal(t, once.lines, crowd.lines)
	require.NotEqual(t, once.lines, other.lines)
}

func TestPartitionAndIsolate(t *testing.T) {
	in(t, 1, Faults{Delay: time.Second}, func(t *testing.T, n *Network, a, b *Fabric, d *diary) {
		for name, cut := range map[string]func(bool){
			"partition": func(cut bool) { n.Partition(b.Tuple(), a.Tuple(), cut) },
			"isolate a": func(cut bool) { n.Isolate(a.Tuple(), cut) },
			"isolate b": func(cut bool) { n.Isolate(b.Tuple(), cut) },
		} {
			before, lost := len(d.read().lines), n.Counters().Cut
			offer, err := b.Offer()
			require.NoError(t, err)
			near, err := a.Dial(t.Context(), b.Tuple(), offer)
			require.NoError(t, err)
			synctest.Wait()
			far := d.newest()
			waiting := make(chan error, 1)
			go func() {
				_, err := far.Read(make([]byte, 1))
				waiting <- err
			}()
			synctest.Wait()

			require.NoError(t, a.Post(b.Tuple(), []byte("under way")))
			cut(true)
			require.NoError(t, a.Post(b.Tuple(), []byte("posted")))
			require.ErrorIs(t, <-waiting, errCut, name)
			_, err = near.Write([]byte("x"))
			require.ErrorIs(t, err, errCut, name)
			_, err = a.Dial(t.Context(), b.Tuple(), offer)
			require.Error(t, err, name)
			pass(time.Minute)
			require.Len(t, d.read().lines, before, name)
			require.Equal(t, lost+2, n.Counters().Cut, name)

			cut(false)
			_, err = near.Write([]byte("x"))
			require.ErrorIs(t, err, errCut, "a stream that was cut stays so")
			require.NoError(t, a.Post(b.Tuple(), []byte("again")))
			pass(time.Second)
			require.Len(t, d.read().lines, before+1, name)
			require.NoError(t, near.Close())
			require.NoError(t, far.Close())
			require.Empty(t, n.streams)
		}
		other := n.Open(&diary{})
		n.Partition(a.Tuple(), other.Tuple(), true)
		before := len(d.read().lines)
		post(t, a, b.Tuple(), 1)
		pass(time.Second)
		require.Len(t, d.read().lines, before+1, "a cut is between two")
		require.NoError(t, other.Close())
	})
}

// streams is a pair of ends.
func streams(t *testing.T, a, b *Fabric, d *diary) (near, far net.Conn) {
	t.Helper()
	offer, err := b.Offer()
	require.NoError(t, err)
	s, err := a.Dial(t.Context(), b.Tuple(), offer)
	require.NoError(t, err)
	synctest.Wait()
	return s.(net.Conn), d.newest()
}

func TestStreamsHaveDelay(t *testing.T) {
	in(t, 1, Faults{Delay: time.Second}, func(t *testing.T, _ *Network, a, b *Fabric, d *diary) {
		began := time.Now()
		near, far := streams(t, a, b, d)
		require.Equal(t, 2*time.Second, time.Since(began), "a dial is a round trip")
		for i := range 2 {
			began = time.Now()
			_, err := near.Write([]byte("hello"))
			require.NoError(t, err)
			require.Zero(t, time.Since(began))
			_, err = io.ReadFull(far, make([]byte, 5))
			require.NoError(t, err)
			require.Equal(t, time.Second, time.Since(began), i)
		}
		began = time.Now()
		require.NoError(t, near.Close())
		_, err := far.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, time.Second, time.Since(began), "the end takes its time as well")
		_, err = far.Write([]byte("x"))
		require.ErrorIs(t, err, errPeerClosed)
		_, err = near.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		require.NoError(t, far.Close())
	})
}

func TestStreamsAreBounded(t *testing.T) {
	in(t, 1, Faults{}, func(t *testing.T, _ *Network, a, b *Fabric, d *diary) {
		near, far := streams(t, a, b, d)
		began := time.Now()
		require.NoError(t, near.SetWriteDeadline(began.Add(time.Minute)))
		n, err := near.Write(make([]byte, flowLimit+1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, flowLimit, n)
		require.Equal(t, time.Minute, time.Since(began))
		require.NoError(t, near.SetDeadline(time.Now().Add(-1)))
		_, err = near.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, near.SetDeadline(time.Time{}))
		_, err = io.ReadFull(far, make([]byte, flowLimit))
		require.NoError(t, err)
		_, err = near.Write([]byte("x"))
		require.NoError(t, err, "there is room, and no deadline")
		require.NoError(t, near.Close())
		require.NoError(t, far.Close())
	})
}

// A stream that was dialled, but never taken, ends with its endpoint.
func TestCloseEndsWhatNobodyTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1, Faults{})
		stuck := make(chan struct{})
		a, b := n.Open(&diary{}), n.Open(stopped(stuck))
		offer, err := b.Offer()
		require.NoError(t, err)
		post(t, a, b.Tuple(), 1)
		synctest.Wait()
		s, err := a.Dial(t.Context(), b.Tuple(), offer)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- b.Close() }()
		_, err = s.Read(make([]byte, 1))
		require.ErrorIs(t, err, errPeerClosed)
		close(stuck)
		require.NoError(t, <-done)
		require.NoError(t, a.Close())
		require.NoError(t, s.Close())
		require.Empty(t, n.streams)
	})
}

// stopped is a sink that takes nothing until the channel is closed.
type stopped chan struct{}

func (s stopped) Datagram(fabric.Tuple, []byte) { <-s }
func (s stopped) Accepted(c fabric.Stream)      { c.Close() }
