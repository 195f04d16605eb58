package reaper

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// outlived is an agent as a reaper sees it.
type outlived struct {
	done, lost chan struct{}
	stopped    chan bool
	relinked   chan os.Signal
}

// TestOutlive plays what a reaper sees, and requires whether the agent ends by itself, and when the
// reaper stops waiting.
func TestOutlive(t *testing.T) {
	const later = time.Hour
	for _, c := range []struct {
		name  string
		play  func(a outlived)
		ended bool
		after time.Duration
	}{
		{"the agent ends", func(outlived) {}, true, later},
		{"link lost", func(a outlived) { close(a.lost) }, false, LinkPatience},
		{"link lost, the agent ends", func(a outlived) {
			close(a.lost)
			time.Sleep(LinkPatience - time.Second)
			close(a.done)
		}, true, LinkPatience - time.Second},
		{"link lost, another link", func(a outlived) {
			close(a.lost)
			time.Sleep(LinkPatience - time.Second)
			a.relinked <- relinkSignal
		}, true, later},
		{"stopped", func(a outlived) { a.stopped <- true }, false, StopPatience},
		{"stopped and continued", func(a outlived) {
			a.stopped <- true
			time.Sleep(StopPatience - time.Second)
			a.stopped <- false
		}, true, later},
		{"stopped again and again", func(a outlived) {
			for range 4 {
				a.stopped <- true
				time.Sleep(StopPatience / 2)
				a.stopped <- false
			}
		}, true, later},
		{"stopped, then link lost", func(a outlived) {
			a.stopped <- true
			time.Sleep(time.Second)
			close(a.lost)
		}, false, time.Second + LinkPatience},
		{"link lost, then stopped and continued", func(a outlived) {
			close(a.lost)
			synctest.Wait()
			a.stopped <- true
			a.stopped <- false
		}, false, LinkPatience},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := outlived{make(chan struct{}), make(chan struct{}), make(chan bool), make(chan os.Signal)}
				began, played := time.Now(), make(chan struct{})
				go func() {
					defer close(played)
					c.play(a)
					time.Sleep(time.Until(began.Add(later)))
					if c.after == later {
						close(a.done)
					}
				}()
				require.Equal(t, c.ended, outlive(a.done, a.lost, a.stopped, a.relinked))
				require.Equal(t, c.after, time.Since(began))
				<-played
			})
		})
	}
}
