//go:build soak

package rankwire

import "testing"

// TestHeapOfLongFrames is TestHeap with frames of 4 MiB.
func TestHeapOfLongFrames(t *testing.T) { suite().Heap(t, 4<<20) }
