package agent

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/core"
	"ibrun/internal/job"
)

// WindowOf returns the size of the terminal f. It returns the zero Window if f is not a terminal.
func WindowOf(f *os.File) job.Window {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return job.Window{}
	}
	return job.Window{Rows: size.Row, Cols: size.Col}
}

// resizes reports the new size of the terminal f whenever it changes, until end is called.
func (l *loop) resizes(f *os.File) (end func()) {
	c := make(chan os.Signal, 1) // one pending signal is enough, since WindowOf reads the newest size; end closes c
	signal.Notify(c, syscall.SIGWINCH)
	go func() {
		for range c {
			if size := WindowOf(f); size != (job.Window{}) {
				l.StdinRead(core.StdinRead{Window: size})
			}
		}
	}()
	return func() {
		signal.Stop(c)
		close(c)
	}
}

// escapes finds the escape sequences that a user types for ibrun, as with ssh. At the beginning of a line, "~." ends
// the job and "~~" sends a tilde. The zero value is at the beginning of a line.
type escapes struct {
	inside bool // the last character was not the end of a line
	tilde  bool // a tilde was typed at the beginning of a line, and is not forwarded yet
}

// filter returns the part of typed that the rank must receive, and whether the user has typed the sequence that ends
// the job.
func (e *escapes) filter(typed []byte) (data []byte, end bool) {
	data = make([]byte, 0, len(typed)+1)
	for _, b := range typed {
		if e.tilde {
			e.tilde = false
			switch b {
			case '.':
				return data, true
			case '~':
			default:
				data = append(data, '~')
			}
		} else if b == '~' && !e.inside {
			e.tilde, e.inside = true, true
			continue
		}
		data = append(data, b)
		e.inside = b != '\r' && b != '\n'
	}
	return data, false
}
