package ibrun

import (
	"math"

	"ibrun/fabric"
	"ibrun/lazy"
)

// SecondaryKey is the key under which a rank puts its second address into the key-value store.
const SecondaryKey = secondaryKey

// Resolver returns the lazy.Resolver of a program that has the given epoch.
func (w *World) Resolver(epoch uint16) lazy.Resolver { return resolver{w.control, mark(epoch)} }

// The examples of this package run in one process, and each of them calls Init.
func init() { maxInitCalls = math.MaxInt32 }

// OnlyOnce makes the next call of Init the last that succeeds, as it is outside tests.
func OnlyOnce() (restore func()) {
	maxInitCalls = initCalls.Load() + 1
	return func() { maxInitCalls = math.MaxInt32 }
}

// PutWhileLocked puts this rank's second address, as its table does under its own locks, while
// somebody who holds the lock of the world may wait for those.
func (w *World) PutWhileLocked(tuple fabric.Tuple) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.putSecondary(tuple)
}
