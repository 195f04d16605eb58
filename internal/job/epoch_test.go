package job

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A newer start is newer than every program of an older one, and a job that restarts nothing has
// the numbers that it always had.
func TestEpochHasTwoParts(t *testing.T) {
	require.Equal(t, uint16(1), Epoch(0, 1))
	require.Equal(t, uint16(1023), Epoch(0, MaxProgram))
	require.Greater(t, Epoch(1, 1), Epoch(0, MaxProgram))
	require.Equal(t, uint16(0xffff), Epoch(MaxStart, MaxProgram))
	for _, start := range []uint8{0, 1, 17, MaxStart} {
		for _, program := range []uint16{1, 2, 512, MaxProgram} {
			require.Equal(t, start, StartOf(Epoch(start, program)))
			require.Equal(t, program, ProgramOf(Epoch(start, program)))
		}
	}
}

// Who asks for the second program of a rank that was restarted gets the second one of the new
// start, and never an older start's.
func TestRaised(t *testing.T) {
	for _, c := range []struct{ least, floor, want uint16 }{
		{1, 0, 1}, {2, 0, 2}, {0, 0, 0}, {0, Epoch(2, 1), Epoch(2, 1)}, {1, Epoch(2, 1), Epoch(2, 1)},
		{2, Epoch(2, 1), Epoch(2, 2)}, {Epoch(3, 1), Epoch(2, 1), Epoch(3, 1)}, {Epoch(2, 4), Epoch(2, 1), Epoch(2, 4)},
	} {
		require.Equal(t, c.want, Raised(c.least, c.floor), "%+v", c)
	}
}
