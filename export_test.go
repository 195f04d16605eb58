package ibrun

import "math"

// The examples of this package run in one process, and each of them calls Init.
func init() { maxInitCalls = math.MaxInt32 }

// OnlyOnce makes the next call of Init the last that succeeds, as it is outside tests.
func OnlyOnce() (restore func()) {
	maxInitCalls = initCalls.Load() + 1
	return func() { maxInitCalls = math.MaxInt32 }
}
