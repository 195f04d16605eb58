package spawn

import (
	"bytes"
	"runtime"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// What a client says in small pieces takes little more memory than the pieces: an agent of 16
// clients has 1 MiB for them.
func TestSmallPieces(t *testing.T) {
	const pieces = 10_000
	var before, after runtime.MemStats
	said := 0
	runtime.ReadMemStats(&before)
	readPMI(iotest.OneByteReader(bytes.NewReader(make([]byte, pieces))), func(b []byte) { said += len(b) })
	runtime.ReadMemStats(&after)
	require.Equal(t, pieces, said)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64*pieces))
}
