// Package build says which binary this is, so that two agents can tell
// whether they are the same program. It reads its own file only; it knows
// nothing of versions or releases.
package build

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"os"
	"runtime"
	"sync"

	"ibrun/internal/proc"
)

// self is this program's file, also after it was replaced on disk.
const self = "/proc/self/exe"

// ID is 16 hexadecimal digits that differ between builds: a digest of the
// build id that the Go linker derives from the whole content (section
// .note.go.buildid). It is "unknown" if the binary was linked without one.
func ID() string { return id() }

var id = sync.OnceValue(func() string {
	head, err := proc.Read(self, headSize)
	if err != nil {
		return "unknown"
	}
	note := buildNote(head)
	if note == nil {
		return "unknown"
	}
	sum := sha256.Sum256(note)
	return hex.EncodeToString(sum[:8])
})

// headSize is the room that the Go linker leaves before a program's text, for headers and notes
// (ELFRESERVE in cmd/link).
const headSize = 4096

// noteMark is how the note of a build id begins behind its lengths: the type 4 and the name, of
// struct Elf_Nhdr (elf(5)) in the machine's order, little-endian wherever ibrun runs today.
var noteMark = []byte("\x04\x00\x00\x00Go\x00\x00")

// buildNote is the build id in the beginning of a program: the section .note.go.buildid. Reading
// the file as package debug/elf does takes twenty system calls, at each start of an agent.
func buildNote(head []byte) []byte {
	at := bytes.Index(head, noteMark)
	if at < 8 || binary.LittleEndian.Uint32(head[at-8:]) != 4 { // the length of the name
		return nil
	}
	size := binary.LittleEndian.Uint32(head[at-4:])
	rest := head[at+len(noteMark):]
	if size == 0 || int64(size) > int64(len(rest)) {
		return nil
	}
	return rest[:size]
}

// Machine is the architecture as uname(1) -m names it.
func Machine() string {
	switch runtime.GOARCH {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	case "386":
		return "i686"
	}
	return runtime.GOARCH
}

// Path is where this binary lies on disk, or "" if it was deleted.
func Path() string {
	p, err := os.Readlink(self)
	if err != nil {
		return ""
	}
	if st, err := os.Stat(p); err != nil || st.IsDir() {
		return ""
	}
	return p
}

// Open opens the file that this process executes, even if its path now names another file or none. The caller closes
// it.
func Open() (*os.File, error) { return os.Open(self) }

// Sum returns the size of this binary in bytes and its SHA-256 digest in hexadecimal. The first call reads the whole
// file, which takes 10 ms; later calls return the same result.
func Sum() (size int64, digest string, err error) {
	s := sum()
	return s.size, s.digest, s.err
}

type summed struct {
	size   int64
	digest string
	err    error
}

var sum = sync.OnceValue(func() (s summed) {
	f, err := Open()
	if err != nil {
		return summed{err: err}
	}
	defer f.Close()
	hash := sha256.New()
	s.size, s.err = io.Copy(hash, f)
	s.digest = hex.EncodeToString(hash.Sum(nil))
	return s
})
