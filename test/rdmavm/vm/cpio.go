package vm

import (
	"fmt"
	"io"
)

// archive writes a cpio archive in the format newc to the writer to. The kernel unpacks it as its first file system. A
// file may contain several archives one after the other. See Documentation/driver-api/early-userspace/buffer-format.rst
// of the kernel.
type archive struct {
	to    io.Writer
	count int
	err   error
}

// Modes of the entries of an archive.
const (
	modeDir     = 0o040755
	modeProgram = 0o100755
)

func (a *archive) dir(name string)               { a.entry(name, modeDir, nil) }
func (a *archive) program(name string, b []byte) { a.entry(name, modeProgram, b) }

// end writes the trailer and returns the first error of all writes.
func (a *archive) end() error {
	a.entry("TRAILER!!!", 0, nil)
	return a.err
}

func (a *archive) entry(name string, mode int, content []byte) {
	a.count++
	header := "070701"
	for _, field := range []int{a.count, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0} {
		header += fmt.Sprintf("%08x", field)
	}
	a.padded([]byte(header + name + "\x00"))
	a.padded(content)
}

// padded writes b and zeros up to the next multiple of four bytes.
func (a *archive) padded(b []byte) {
	for _, part := range [][]byte{b, make([]byte, -len(b)&3)} {
		if a.err == nil {
			_, a.err = a.to.Write(part)
		}
	}
}
