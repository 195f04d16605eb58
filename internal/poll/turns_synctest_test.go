package poll

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The owner has the turn at first, makes way when asked, and has it again when drivers stay away.
func TestOwnerTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := NewTurn()
		select {
		case <-turn.Free():
			t.Fatal("the owner has it")
		default:
		}
		require.False(t, turn.Wanted())
		turn.Want()
		require.True(t, turn.Wanted())
		require.False(t, turn.Wanted(), "it was asked once")
		turn.Leave()
		<-turn.Free() // a driver
		<-time.After(time.Second)
		turn.Leave()
		left := time.Now()
		require.True(t, turn.Wait())
		require.LessOrEqual(t, time.Since(left), longestStandBy)
		turn.End()
		turn.Give()
		<-turn.Free()
	})
}

// While drivers come back, the timer fires for ever fewer of their turns, and the owner is not
// woken; when they stay away, it has to wait for no longer than the promise.
func TestFewTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := NewTurn()
		turn.Leave()
		took := make(chan time.Time, 1)
		go func() {
			if turn.Wait() {
				took <- time.Now()
			}
		}()
		for range 10_000 {
			<-turn.Free()
			<-time.After(50 * time.Microsecond)
			turn.Leave()
		}
		require.Empty(t, took)
		require.EqualValues(t, longestStandBy, turn.patience.Load())
		left := time.Now()
		require.LessOrEqual(t, (<-took).Sub(left), longestStandBy)
		require.EqualValues(t, standBy, turn.patience.Load())
		turn.End()
	})
}

// A driver that passes the turn gives it to the owner, also if that has ended.
func TestPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes: nobody but the driver takes the turn
		turn := NewTurn()
		turn.Leave()
		<-turn.Free()
		var owner sync.WaitGroup
		owner.Go(func() { require.True(t, turn.Wait()) })
		turn.Pass()
		owner.Wait()
		turn.End()
		turn.Pass()
		<-turn.Free()
		require.False(t, turn.Wait())
	})
}
