package fabrictest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
)

// driver is an endpoint that can be driven, and another that sends to it.
func driver(t *testing.T, open Opener, x *Box) (fabric.Driver, fabric.Fabric) {
	t.Helper()
	f := open(t, x)
	t.Cleanup(func() { f.Close() })
	d, ok := f.(fabric.Driver)
	require.True(t, ok)
	from, _ := endpoint(t, open)
	return d, from
}

// driverOrNone sees to it that the promises for drivers are not passed over.
func driverOrNone(t *testing.T, open Opener, o Options) {
	f, _ := endpoint(t, open)
	_, is := f.(fabric.Driver)
	require.Equal(t, o.Driver, is)
}

// takeTurn gets the turn from the fabric's goroutine, which gives it up after a
// datagram.
func takeTurn(t *testing.T, d fabric.Driver, from fabric.Fabric) {
	t.Helper()
	for range int(patience / again) {
		d.Turn().Want()
		require.NoError(t, from.Post(d.Tuple(), []byte("make way")))
		select {
		case <-d.Turn().Free():
			return
		case <-time.After(again):
		}
	}
	require.FailNow(t, "the turn is not given up")
}

// drivenByMany has drivers come and go while datagrams arrive.
func drivenByMany(t *testing.T, open Opener, o Options) {
	x := NewBox()
	d, from := driver(t, open, x)
	const count, size, drivers = 400, 200, 3
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range drivers {
		all.Go(func() {
			for n := i; ; n++ {
				d.Turn().Want()
				select {
				case <-stop:
					return
				case <-d.Turn().Free():
				}
				if n%5 == 0 {
					d.Turn().Leave()
				} else {
					d.Drive()
				}
			}
		})
	}
	sent := map[string]bool{}
	for n := range count {
		m := pattern(size, n)
		sent[string(m)] = true
		if n%10 == 0 {
			send(t, from, d.Tuple(), m, x, o.Lossy)
			continue
		}
		require.NoError(t, from.Post(d.Tuple(), m))
	}
	if !o.Lossy {
		require.True(t, x.has(func(got map[string]int) bool { return len(got) == count }, patience),
			"some did not arrive")
	}
	close(stop)
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for range int(patience / again) { // each ends one drive
		d.Wake()
		select {
		case <-done:
		case <-time.After(again):
			continue
		}
		break
	}
	soon(t, done, "a driver does not come back")
	send(t, from, d.Tuple(), pattern(size, 0), x, o.Lossy)
	x.onlyOf(t, sent)
}

// driveEnds has a drive end by a datagram, Wake and Close, and the fabric
// receive by itself when nobody drives.
func driveEnds(t *testing.T, open Opener, _ Options) {
	for _, end := range []struct {
		name string
		by   func(d fabric.Driver, from fabric.Fabric)
	}{
		{"datagram", func(d fabric.Driver, from fabric.Fabric) {
			_ = from.Post(d.Tuple(), []byte("one"))
		}},
		{"wake", func(d fabric.Driver, _ fabric.Fabric) { d.Wake() }},
		{"close", func(d fabric.Driver, _ fabric.Fabric) { d.Close() }},
	} {
		x := NewBox()
		d, from := driver(t, open, x)
		takeTurn(t, d, from)
		d.Turn().Leave()
		send(t, from, d.Tuple(), []byte("nobody drives"), x, true)
		takeTurn(t, d, from)
		back := make(chan struct{})
		go func() { d.Drive(); close(back) }()
		for range int(patience / again) { // one that is lost, or was for an earlier drive, is no end
			end.by(d, from)
			select {
			case <-back:
			case <-time.After(again):
				continue
			}
			break
		}
		soon(t, back, "a drive does not end by "+end.name)
		if end.name == "close" {
			continue
		}
		send(t, from, d.Tuple(), []byte("nobody drives again"), x, true)
	}
}

// closeWaitsForDriver is closeWaits with the sink in a driver's hands.
func closeWaitsForDriver(t *testing.T, open Opener, _ Options) {
	x := NewBox()
	inside, stuck := make(chan struct{}, 1), make(chan struct{})
	release := sync.OnceFunc(func() { close(stuck) })
	var driving atomic.Bool // the next datagram is the driver's, who has the turn and takes one
	x.onDatagram = func(_ fabric.Tuple, b []byte) {
		if driving.Swap(false) && string(b) == "stay" {
			inside <- struct{}{}
			<-stuck
		}
	}
	d, from := driver(t, open, x)
	t.Cleanup(release)
	var back chan struct{}
	drive := func() {
		takeTurn(t, d, from)
		driving.Store(true)
		done := make(chan struct{})
		go func() { d.Drive(); close(done) }()
		back = done
	}
	drive()
	for range int(patience / again) {
		require.NoError(t, from.Post(d.Tuple(), []byte("stay")))
		select {
		case <-inside:
		case <-back: // it drove what was left of takeTurn
			drive()
			continue
		case <-time.After(again):
			continue
		}
		closesAfter(t, d, release)
		soon(t, back, "a driver does not come back")
		return
	}
	require.FailNow(t, "nothing was driven")
}
