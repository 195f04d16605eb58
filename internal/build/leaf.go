package build

import (
	"encoding/binary"
	"io"
	"os"
)

// An ibrun that a leaf was joined to is
//
//	the program, up to a multiple of 4096 bytes | the leaf | the program packed, or nothing | leafMark | the leaf's
//	offset, 8 bytes
//
// The entry of the program finds the leaf by the end of the file, and maps it
// (bootstrap/reaper/entry_linux_amd64.s).
const leafMark = "ibrnleaf"

// page is the least alignment of what can be mapped, in bytes.
const page = 4096

// endSize is that of leafMark and the offset.
const endSize = int64(len(leafMark) + 8)

// leafAt is the offset of the leaf in a file; 0: there is none.
func leafAt(f *os.File) int64 {
	size, err := f.Seek(-endSize, io.SeekEnd)
	if err != nil {
		return 0
	}
	end := make([]byte, endSize)
	_, err = f.ReadAt(end, size)
	at := int64(binary.LittleEndian.Uint64(end[len(leafMark):]))
	if _, back := f.Seek(0, io.SeekStart); err != nil || back != nil || string(end[:len(leafMark)]) != leafMark ||
		at <= 0 || at >= size {
		return 0
	}
	return at
}

// Join joins the leaf at a path to the ibrun at another, which is replaced. It takes the place of
// an older leaf, and of what packed form there was.
func Join(path, leafPath string) error {
	program, err := Program(path)
	if err != nil {
		return err
	}
	leaf, err := os.ReadFile(leafPath)
	if err != nil {
		return err
	}
	at := (len(program) + page - 1) / page * page
	end := binary.LittleEndian.AppendUint64([]byte(leafMark), uint64(at))
	return replace(path, program, make([]byte, at-len(program)), leaf, end)
}
