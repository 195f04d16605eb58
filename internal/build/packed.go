package build

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// A node that has zstd(1) is sent the program packed, in a third of its bytes:
//
//	what zstd makes of the program | a skippable frame: packMark, the program's size, the size of all this, 8 bytes each
//
// zstd passes over such a frame (RFC 8878, section 3.1.2). In an ibrun that make has built this
// lies behind the program, as in a copy on a node, so that it can be sent on.
const packMark = "ibrnpack"

// skippable begins a frame with this many bytes: its magic number and the length of the rest.
var skippable = []byte{0x50, 0x2a, 0x4d, 0x18, 24, 0, 0, 0}

const frameSize = int64(8 + 24)

// parts is where in an ibrun the program and its packed form are. Without a packed form, its size
// is 0; the program may be all of the file.
type parts struct{ program, packed, packedSize int64 }

// partsOf reads them from the end of a file.
func partsOf(f *os.File) (p parts, err error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return p, err
	}
	p.program = end
	frame := make([]byte, frameSize)
	if _, err := f.ReadAt(frame, end-frameSize); err != nil || !bytes.HasPrefix(frame, append(skippable, packMark...)) {
		return p, nil // a file that is too short has none, too
	}
	program, size := binary.LittleEndian.Uint64(frame[16:]), binary.LittleEndian.Uint64(frame[24:])
	if size < uint64(frameSize) || size > uint64(end) || program > uint64(end)-size {
		return p, nil
	}
	return parts{int64(program), end - int64(size), int64(size)}, nil
}

// Program returns the content of the ibrun at a path without its packed form.
func Program(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := partsOf(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, 0, p.program))
}

// Pack puts what zstd made of the program at a path into that ibrun, which is replaced.
func Pack(path string, zstd []byte) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	p, err := partsOf(f)
	if err != nil {
		return err
	}
	all, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	kept := all[:int64(len(all))-p.packedSize]
	frame := append(bytes.Clone(skippable), packMark...)
	frame = binary.LittleEndian.AppendUint64(frame, uint64(p.program))
	frame = binary.LittleEndian.AppendUint64(frame, uint64(len(zstd))+uint64(frameSize))
	return replace(path, kept, zstd, frame)
}

// replace writes a program anew, in a copy that then takes its place: who runs it keeps his.
func replace(path string, pieces ...[]byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".join-")
	if err != nil {
		return err
	}
	_, err = f.Write(bytes.Join(pieces, nil))
	err = errors.Join(err, f.Chmod(0o755), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
