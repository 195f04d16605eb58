package frametest

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/frame"
)

// heapTries is how often a cost is measured at most: what the runtime allocates for itself in the
// meantime, such as a thread of 5 KiB, is on the heap, too.
const heapTries = 3

// Heap holds the promise that a frame makes nobody keep more than twice its bytes, for each kind: a
// new kind needs a line in Dense. Size is that of dense messages, in bytes.
func (s Suite) Heap(t *testing.T, size int) {
	frames := map[frame.Kind][][]byte{}
	for _, m := range s.Samples {
		frames[m.Kind()] = append(frames[m.Kind()], frame.Append(nil, m)[4:])
	}
	for k, samples := range frames {
		dense, ok := s.Dense[k]
		require.True(t, ok, "what could cost most in a %s?", s.Vocabulary.Name(k))
		if dense != nil {
			for _, m := range dense(size) {
				samples = append(samples, frame.Append(nil, m)[4:])
			}
		}
		for i, f := range samples {
			s.costs(t, f, i)
		}
	}
}

// costs holds one frame against the promise.
func (s Suite) costs(t *testing.T, f []byte, number int) {
	kind := frame.Kind(f[0])
	most := int64(2*len(f) + frame.Slack)
	if s.Vocabulary.Format(kind).Once {
		most += frame.OnceSlack
	}
	kept, err := s.kept(f)
	for tries := 1; kept > most && tries < heapTries; tries++ {
		kept, err = s.kept(f)
	}
	if err != nil {
		require.ErrorIs(t, err, frame.ErrDense, "%s %d", s.Vocabulary.Name(kind), number)
		return
	}
	require.LessOrEqual(t, kept, most, "bytes kept for %s %d of %d bytes", s.Vocabulary.Name(kind), number, len(f))
	if len(f) > 1<<20 {
		t.Logf("%s %d: %.2f times its %d bytes", s.Vocabulary.Name(kind), number, float64(kept)/float64(len(f)), len(f))
	}
}

// kept is what a message from a stream keeps on the heap.
func (s Suite) kept(f []byte) (bytesKept int64, err error) {
	length := binary.BigEndian.AppendUint32(nil, uint32(len(f)))
	in := io.MultiReader(bytes.NewReader(length), bytes.NewReader(f))
	from := s.Vocabulary.Format(frame.Kind(f[0])).From
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m, err := s.Vocabulary.NewReader(in, from).Next()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(m)
	runtime.KeepAlive(f)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc), err
}
