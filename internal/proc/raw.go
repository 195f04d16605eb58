package proc

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// RawTerminal is a terminal that is raw from Take to Give. Its methods may be called from any goroutine.
type RawTerminal struct {
	File *os.File // nil: there is no terminal, or Give was called

	mu    sync.Mutex
	saved *unix.Termios // modes before Take; nil: the terminal is not raw
}

// Take makes the terminal raw. It returns false if another process group has the terminal at present, so that Take must
// be called again. It returns true in all other cases, even if there is no terminal or its modes cannot be read.
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

// Give restores the modes that the terminal had before Take. A later Take does nothing.
func (t *RawTerminal) Give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		SetConsole(t.File, unix.TCSETSW, t.saved) // in the background the shell has set its own modes, which stay
	}
	t.File, t.saved = nil, nil
}
