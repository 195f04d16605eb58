package build

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// An ibrun that a leaf was joined to is
//
//	the program, up to a multiple of 4096 bytes | the leaf | leafMark | the leaf's offset, 8 bytes
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

// programOf is the text of the ibrun at a path, without a leaf.
func programOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := io.ReadAll(f)
	if at := leafAt(f); at > 0 {
		all = all[:at]
	}
	return all, err
}

// Join joins this program, a leaf, to the ibrun at a path, which is replaced. It takes the place of
// an older leaf.
func Join(path string) error {
	program, err := programOf(path)
	if err != nil {
		return err
	}
	leaf, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	at := (len(program) + page - 1) / page * page
	joined := append(program, make([]byte, at-len(program))...)
	joined = binary.LittleEndian.AppendUint64(append(append(joined, leaf...), leafMark...), uint64(at))
	f, err := os.CreateTemp(filepath.Dir(path), ".join-")
	if err != nil {
		return err
	}
	_, err = f.Write(joined)
	err = errors.Join(err, f.Chmod(0o755), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
