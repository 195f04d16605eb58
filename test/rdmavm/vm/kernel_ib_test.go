//go:build ib

package vm

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// bzImage returns a bzImage with this compressed payload, which begins after the setup sectors and a gap.
func bzImage(payload []byte) []byte {
	const sectors, gap = 3, 100
	image := make([]byte, (sectors+1)*sector+gap, 1<<12)
	image[setupSectors] = sectors
	copy(image[headerMagic:], "HdrS")
	binary.LittleEndian.PutUint32(image[payloadOffset:], gap)
	payload = append(payload, 1, 2, 3, 4) // its unpacked size
	binary.LittleEndian.PutUint32(image[payloadLength:], uint32(len(payload)))
	return append(append(image, payload...), "what follows the payload"...)
}

func TestUnpackKernel(t *testing.T) {
	packed := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return b.Bytes()
	}
	got, err := unpackKernel(bzImage(packed("\x7fELF and so on")))
	require.NoError(t, err)
	require.Equal(t, "\x7fELF and so on", string(got))

	whole := bzImage(packed("\x7fELF"))
	for why, image := range map[string][]byte{
		"not a bzImage":       []byte("\x7fELF"),
		"it is no ELF image":  bzImage(packed("something else")),
		"gzip of the":         bzImage(packed("\x7fELF")[:12]),
		"not known: 4c5a4950": bzImage([]byte("LZIP")),
		"the bzImage is cut":  whole[:len(whole)-40],
	} {
		_, err := unpackKernel(image)
		require.ErrorContains(t, err, why)
	}
}

// TestArchive requires that archive writes the format newc: header fields of eight hexadecimal digits, and names and
// contents that are padded with zeros to multiples of four bytes.
func TestArchive(t *testing.T) {
	var b bytes.Buffer
	a := archive{to: &b}
	a.program("init", []byte("12345"))
	require.NoError(t, a.end())
	require.Equal(t, "070701"+"00000001"+"000081ed"+"00000000"+"00000000"+"00000001"+"00000000"+"00000005"+"00000000"+
		"00000000"+"00000000"+
		"00000000"+"00000005"+"00000000"+"init\x00\x00"[:5]+"\x00"+"12345\x00\x00\x00", b.String()[:124])
	require.Zero(t, b.Len()%4)
	require.Contains(t, b.String(), "TRAILER!!!\x00")
}
