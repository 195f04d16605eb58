package main

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/internal/job"
	"ibrun/internal/proc"
)

// userTerminal is the user's terminal while a rank has it (--pty). The zero value is none.
type userTerminal struct {
	mu    sync.Mutex
	file  *os.File      // nil: standard input is no terminal, or is the shell's again
	saved *unix.Termios // nil: it is as the user's shell left it
}

// openTerminal finds the user's terminal, if the job wants one.
func openTerminal(j *job.Job) *userTerminal {
	if j.Output.Terminal && proc.IsTerminal(os.Stdin) {
		return &userTerminal{file: os.Stdin}
	}
	return &userTerminal{}
}

// take makes the terminal raw: each key goes to the rank, Ctrl-C as well. Ranks have started by
// then, so that a launch which hangs can be ended by it. A job in the background takes it when it
// has been brought to the front.
func (t *userTerminal) take() {
	if t.taken() {
		return
	}
	go func() {
		for !t.taken() {
			time.Sleep(takeEvery)
		}
	}()
}

// takeEvery is how often a job in the background looks for its terminal.
const takeEvery = 500 * time.Millisecond

// taken makes the terminal raw if that can be. It reports whether there is nothing left to do.
func (t *userTerminal) taken() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil || t.saved != nil {
		return true
	}
	how, err := unix.IoctlGetTermios(int(t.file.Fd()), unix.TCGETS)
	if err != nil {
		return true
	}
	raw := proc.Raw(*how)
	if !proc.SetConsole(t.file, unix.TCSETS, &raw) {
		return false
	}
	t.saved = how
	return true
}

// give gives the terminal back to the user's shell.
func (t *userTerminal) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		proc.SetConsole(t.file, unix.TCSETSW, t.saved) // in the background the shell has its own modes
	}
	t.file, t.saved = nil, nil
}

// under is a writer whose lines end right while the terminal is raw.
func (t *userTerminal) under(w io.Writer) io.Writer {
	if t.file == nil {
		return w
	}
	return rawWriter{t, w}
}

type rawWriter struct {
	t *userTerminal
	w io.Writer
}

func (r rawWriter) Write(b []byte) (int, error) {
	r.t.mu.Lock()
	raw := r.t.saved != nil
	r.t.mu.Unlock()
	text := b
	if raw {
		text = bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))
	}
	if _, err := r.w.Write(text); err != nil {
		return 0, err
	}
	return len(b), nil
}
