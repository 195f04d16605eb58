package remote

import (
	"strings"
	"sync"
)

// tail keeps the end of what is written to it, and the line with which Go's
// runtime said why it ends, which much may follow.
type tail struct {
	mu    sync.Mutex
	buf   []byte
	fatal string
}

// alarms begin such a line.
var alarms = []string{"runtime: failed to create new OS thread", "fatal error: ", "panic: "}

// traces begin the state of a runtime that ends.
var traces = []string{"runtime stack:\n", "goroutine "}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if t.fatal == "" {
		t.fatal = alarmIn(string(t.buf))
	}
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// alarm is the line with which a runtime ended; empty: none did.
func (t *tail) alarm() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fatal
}

// alarmIn finds such a line that is whole, as a runtime writes it in pieces.
func alarmIn(text string) string {
	i := lineIn(text, alarms)
	if i < 0 {
		return ""
	}
	line, _, whole := strings.Cut(text[i:], "\n")
	if !whole {
		return ""
	}
	return line
}

// lineIn returns the offset in bytes of the first line of text that begins with one of starts. It returns a negative
// number if no line does.
func lineIn(text string, starts []string) int {
	at := 0
	for l := range strings.Lines(text) {
		for _, s := range starts {
			if strings.HasPrefix(l, s) {
				return at
			}
		}
		at += len(l)
	}
	return -1
}
