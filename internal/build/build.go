// Package build says which binary this is, so that two agents can tell
// whether they are the same program. It reads its own file only; it knows
// nothing of versions or releases.
package build

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"io"
	"os"
	"runtime"
	"sync"
)

// self is this program's file, also after it was replaced on disk.
const self = "/proc/self/exe"

// ID is 16 hexadecimal digits that differ between builds: a digest of the
// build id that the Go linker derives from the whole content (section
// .note.go.buildid). It is "unknown" if the binary was linked without one.
func ID() string { return id() }

var id = sync.OnceValue(func() string {
	f, err := elf.Open(self)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	s := f.Section(".note.go.buildid")
	if s == nil {
		return "unknown"
	}
	note, err := s.Data()
	if err != nil || len(note) <= 16 {
		return "unknown"
	}
	sum := sha256.Sum256(note[16:])
	return hex.EncodeToString(sum[:8])
})

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

// Open opens this very binary for reading; the caller closes it.
func Open() (*os.File, error) { return os.Open(self) }

// Sum is the SHA-256 digest of this binary, in hexadecimal, and its size. It is
// reckoned once: that takes 10 ms.
func Sum() (digest string, size int64, err error) {
	s := sum()
	return s.digest, s.size, s.err
}

type summed struct {
	digest string
	size   int64
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
