package proc

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// RawTerminal is a terminal that is raw from Take to Give. Its methods may be called from any goroutine.
type RawTerminal struct {
	File *os.File // nil: there is none, or it was given back

	mu    sync.Mutex
	saved *unix.Termios // modes before Take; nil: they are as they were
}

// Take makes the terminal raw. It reports whether nothing is left to do. Something is left while another process group
// has the terminal.
func (t *RawTerminal) Take() (done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.File == nil || t.saved != nil {
		return true
	}
	modes, err := unix.IoctlGetTermios(int(t.File.Fd()), unix.TCGETS)
	if err != nil {
		return true
	}
	raw := Raw(*modes)
	if !SetConsole(t.File, unix.TCSETS, &raw) {
		return false
	}
	t.saved = modes
	return true
}

// Taken reports whether the terminal is raw.
func (t *RawTerminal) Taken() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.saved != nil
}

// Give leaves the terminal as it was, for good.
func (t *RawTerminal) Give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		SetConsole(t.File, unix.TCSETSW, t.saved) // in the background the shell has its own modes
	}
	t.File, t.saved = nil, nil
}
