package proc

import (
	"os"
	"os/signal"
)

// Shrug makes signals do nothing. Unlike ignoring them, it does not pass to
// the programs that this process starts.
func Shrug(signals ...os.Signal) {
	c := make(chan os.Signal, 1) // what does not fit is dropped, as is what does
	signal.Notify(c, signals...)
}
