package main

import (
	"bytes"
	"io"
	"os"
	"time"

	"ibrun/internal/job"
	"ibrun/internal/proc"
)

// userTerminal is the user's terminal while a rank has it (--pty). The zero value is none.
type userTerminal struct{ proc.RawTerminal }

// openTerminal finds the user's terminal, if the job wants one.
func openTerminal(j *job.Job) *userTerminal {
	t := &userTerminal{}
	if j.Output.Terminal && proc.IsTerminal(os.Stdin) {
		t.File = os.Stdin
	}
	return t
}

// take makes the terminal raw: each key goes to the rank, Ctrl-C as well. Ranks have started by
// then, so that a launch which hangs can be ended by it. A job in the background takes it when it
// has been brought to the front.
func (t *userTerminal) take() {
	if t.Take() {
		return
	}
	go func() {
		for !t.Take() {
			time.Sleep(takeEvery)
		}
	}()
}

// takeEvery is how often a job in the background looks for its terminal.
const takeEvery = 500 * time.Millisecond

// under is a writer whose lines end right while the terminal is raw.
func (t *userTerminal) under(w io.Writer) io.Writer {
	if t.File == nil {
		return w
	}
	return rawWriter{t, w}
}

type rawWriter struct {
	t *userTerminal
	w io.Writer
}

func (r rawWriter) Write(b []byte) (int, error) {
	text := b
	if r.t.Taken() {
		text = bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))
	}
	if _, err := r.w.Write(text); err != nil {
		return 0, err
	}
	return len(b), nil
}
