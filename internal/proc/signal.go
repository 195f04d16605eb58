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

// held contains the signals that Signals receives and that were blocked when it was called. Bit 0 is signal 1. Programs
// that this process starts find these signals unblocked.
var held uint64

// Signals starts a goroutine that calls got for each of the given signals that this process receives. Call Signals
// once, before this process starts programs. A signal that was blocked when this process started is received too, even
// if it arrived before the call, because os/signal unblocks it in a thread of its own. SIGHUP, SIGINT and SIGTERM are
// exceptions: Go unblocks them when it starts, so one that has arrived by then ends the process.
func Signals(got func(syscall.Signal), signals ...syscall.Signal) {
	held = blockedOf(signals)
	received := make(chan os.Signal, 64) // room for each signal once; os/signal drops signals if it is full
	for _, s := range signals {
		signal.Notify(received, s)
	}
	go func() {
		for s := range received {
			got(s.(syscall.Signal))
		}
	}()
}

// blockedOf returns those of the signals that the calling thread blocks. Bit 0 is signal 1. All threads of Go start
// with the mask of the first thread.
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
