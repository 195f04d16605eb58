package proc

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Shrug makes signals do nothing. Unlike ignoring them, it does not pass to
// the programs that this process starts.
func Shrug(signals ...os.Signal) {
	c := make(chan os.Signal, 1) // what does not fit is dropped, as is what does
	signal.Notify(c, signals...)
}

// held are signals, a bit each from signal 1 on, that this process was started with blocked and that Signals
// receives. Programs that this process starts find them unblocked.
var held uint64

// Signals calls got for each of these signals that this process gets, one call at a time. It is called once, before
// there are programs. A signal that is blocked when this process starts is received too, also if it came earlier:
// os/signal unblocks it in a thread of its own.
func Signals(got func(syscall.Signal), signals ...syscall.Signal) {
	held = blockedOf(signals)
	received := make(chan os.Signal, 64) // one place per signal number; os/signal drops what does not fit
	for _, s := range signals {
		signal.Notify(received, s)
	}
	go func() {
		for s := range received {
			got(s.(syscall.Signal))
		}
	}()
}

// blockedOf returns which of the signals this thread has blocked, a bit each from signal 1 on. Go's threads inherit
// the mask of the first one.
func blockedOf(signals []syscall.Signal) (blocked uint64) {
	var now unix.Sigset_t
	if unix.PthreadSigmask(unix.SIG_BLOCK, nil, &now) != nil {
		return 0
	}
	for _, s := range signals {
		blocked |= now.Val[0] & (1 << (s - 1))
	}
	return blocked
}
