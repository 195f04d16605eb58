//go:build ib

package ib

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Long reads land in the reader's own memory wherever it begins and ends, and in nothing beside it.
// It is registered no longer than the read takes.
func TestLongReads(t *testing.T) {
	a, _ := openAt(t, config("mlx5_0"))
	b, box := openAt(t, config("mlx5_0"))
	near, far := dialled(t, a, b, box)
	page := os.Getpagesize()
	random := rand.NewChaCha8([32]byte{})
	const most = 3 * directLength
	memory := make([]byte, most+4*page)
	aligned := memory[-uintptr(unsafe.Pointer(&memory[0]))%uintptr(page):]
	read := func(from, size int) {
		t.Run(fmt.Sprintf("%d from %d of a page", size, from), func(t *testing.T) {
			sent := make([]byte, size)
			_, _ = random.Read(sent)
			want := make([]byte, len(aligned))
			_, _ = random.Read(want)
			copy(aligned, want)
			copy(want[from:], sent)
			wrote := make(chan error, 1)
			go func() {
				_, err := near.Write(sent)
				wrote <- err
			}()
			_, err := io.ReadFull(far, aligned[from:from+size])
			require.NoError(t, err)
			require.NoError(t, <-wrote)
			require.True(t, string(want) == string(aligned))
		})
	}
	registered(t, b)
	before := b.Counters().Pinned
	read(0, directLength)
	require.Equal(t, before, b.Counters().Pinned, "the device writes whole pages without a piece")
	read(1, most)
	pieces := before + 2*fetchPiece // for what is before the pages and behind them
	require.LessOrEqual(t, b.Counters().Pinned, pieces)
	for _, from := range []int{0, 1, page - 1} {
		for _, size := range []int{directLength + page - 1, directLength + page, most + 5} {
			read(from, size)
		}
	}
	require.LessOrEqual(t, b.Counters().Pinned, pieces+2*fetchPiece, "what is read is registered no more")
}
