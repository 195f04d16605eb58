package verbs

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/test/waitfor"
)

// alarm is a descriptor that has something some time after it is set: no goroutine is needed for
// it.
type alarm struct {
	*pollable
	fd    int
	takes atomic.Int32
}

func newAlarm(t *testing.T) *alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	p, err := newPollable(fd, "alarm")
	require.NoError(t, err)
	t.Cleanup(p.close)
	return &alarm{pollable: p, fd: fd}
}

func (a *alarm) set(after time.Duration) {
	_ = unix.TimerfdSettime(a.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(after))}, nil)
}

func (a *alarm) take() int {
	a.takes.Add(1)
	if n, err := unix.Read(a.fd, make([]byte, 8)); n < 0 {
		return -int(err.(unix.Errno))
	}
	return 1
}

// keep is longer than any of these tests has to wait, and most what is waited for what hangs.
const (
	keep = 50 * time.Millisecond
	most = waitfor.Deadline
)

var past = time.Unix(1, 0)

// What comes while the processor is kept is taken with the first try, and none is made before it.
func TestKeptWaitTakes(t *testing.T) {
	// Go may stop the thread meanwhile, which ends the wait.
	waitfor.Require(t, "a wait that takes once", func() bool {
		a := newAlarm(t)
		a.set(time.Millisecond)
		rc, err := a.wait(most, a.take)
		return rc == 1 && err == nil && a.takes.Load() == 1
	})
}

// Waits that bring nothing are kept ever more rarely; where all bring something, each is kept.
func TestKeepingBecomesRare(t *testing.T) {
	a := newAlarm(t)
	require.NoError(t, a.file.SetReadDeadline(past))
	for range 1000 {
		_, err := a.wait(time.Nanosecond, a.take)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	require.Less(t, a.keeper.waits, 100)
	require.NoError(t, a.file.SetReadDeadline(time.Time{}))
	for i := range 300 {
		if i == 200 {
			a.keeper.waits = 0
		}
		a.set(time.Nanosecond)
		rc, err := a.wait(most, a.take)
		require.NoError(t, err)
		require.Equal(t, 1, rc)
	}
	require.Greater(t, a.keeper.waits, 90, "of 100")
	_, err := unix.Read(a.fd, make([]byte, 8))
	require.ErrorIs(t, err, unix.EAGAIN)
}

// begin starts a wait in a goroutine, and returns while its processor is kept, or later if the CPUs
// are busy.
func (a *alarm) begin(t *testing.T, take func() int) (ended chan error) {
	ended = make(chan error, 1)
	go func() {
		_, err := a.wait(keep, func() int { a.takes.Add(1); return take() })
		ended <- err
	}()
	waitfor.Require(t, "a wait", func() bool {
		if !a.open.TryLock() {
			return true
		}
		a.open.Unlock()
		return a.takes.Load() > 0
	})
	return ended
}

// A deadline that passes while the processor is kept ends that wait, or the next one.
func TestDeadlineEndsKeptWait(t *testing.T) {
	a := newAlarm(t)
	ended := a.begin(t, a.take)
	require.NoError(t, a.file.SetReadDeadline(past))
	require.ErrorIs(t, <-ended, os.ErrDeadlineExceeded)

	b := newAlarm(t)
	b.set(keep / 2)
	ended = b.begin(t, b.take)
	require.NoError(t, b.file.SetReadDeadline(past))
	if err := <-ended; err != nil {
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	b.set(0)
	_, err := b.wait(keep, b.take)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// Close ends a wait that keeps its processor, and returns when nothing is taken any more.
func TestCloseEndsKeptWait(t *testing.T) {
	a, b := newAlarm(t), newAlarm(t)
	ended := a.begin(t, a.take)
	a.close()
	require.ErrorIs(t, <-ended, os.ErrClosed)

	closed, late := atomic.Bool{}, atomic.Bool{}
	b.set(keep / 2)
	ended = b.begin(t, func() int {
		late.Store(late.Load() || closed.Load())
		return b.take()
	})
	b.close()
	closed.Store(true)
	<-ended
	require.False(t, late.Load(), "taken after close")
}

// In a process with one processor other descriptors are looked at, though each wait keeps it.
func TestOthersHaveTheirTurn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	a := newAlarm(t)
	wait := func() {
		a.set(time.Nanosecond)
		rc, err := a.wait(most, a.take)
		require.NoError(t, err)
		require.Equal(t, 1, rc)
	}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	raw, err := w.SyscallConn()
	require.NoError(t, err)
	// Threads that had a processor before may wait for descriptors at first.
	for round := range 3 {
		came := atomic.Bool{}
		go func() {
			_, _ = r.Read(make([]byte, 1))
			came.Store(true)
		}()
		for range 2 * othersEvery { // the goroutine waits in the poller
			wait()
		}
		require.False(t, came.Load())
		require.NoError(t, raw.Write(func(fd uintptr) bool {
			_, err = unix.Write(int(fd), []byte{1})
			return true
		}))
		require.NoError(t, err)
		waits := 0
		for ; !came.Load() && waits < 100*othersEvery; waits++ {
			wait()
		}
		require.LessOrEqual(t, waits, 2*othersEvery, "round %d", round)
	}
}

// Who can run has had a turn when a wait that keeps the only processor begins, whether or not
// something was sent then.
func TestOthersRunBefore(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var sent atomic.Uint32
	sent.Store(7) // by another channel of the context
	for _, known := range []bool{false, true} {
		var k keeper
		if known {
			k.follow(&sent)
			require.False(t, k.answered())
		}
		for _, answers := range []bool{false, true} {
			woken, ran := make(chan struct{}, 1), uint32(0)
			go func() {
				for range woken {
					atomic.AddUint32(&ran, 1)
					if answers {
						sent.Add(1)
					}
				}
			}()
			for n := range uint32(1000) {
				woken <- struct{}{}
				require.True(t, k.due())
				require.Equal(t, n+1, atomic.LoadUint32(&ran))
			}
			close(woken)
		}
	}
}
