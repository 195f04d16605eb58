// Package screen keeps what a program prints, for tests that look at it while it still comes.
package screen

import (
	"bytes"
	"sync"
)

// Screen keeps all that is written to it. The zero value is empty and ready. Any number of
// goroutines may use it at the same time.
type Screen struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write never fails.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

// String is all that has been written so far.
func (s *Screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}
