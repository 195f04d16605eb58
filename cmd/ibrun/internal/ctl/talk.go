package ctl

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/control"
	"ibrun/internal/exit"
	"ibrun/internal/proc"
)

// pipeHelp is the part of Help about a command that reads.
const pipeHelp = `  pipe RANK COMMAND ...
                    run a command beside a rank; it reads standard input, and what it
                    prints is printed, byte for byte
  gdb RANK          attach a debugger to a rank, with this terminal; the rank goes on
                    when the debugger ends
  mpir              prepare for a debugger that attaches to ibrun and speaks MPIR: it
                    finds all ranks
`

// takesCommand reports whether what follows some words is a command.
func takesCommand(words []string) bool {
	return len(words) == 1 && words[0] == "exec" || len(words) == 2 && words[0] == "pipe"
}

// gdbVariable names the debugger of ctl gdb.
const gdbVariable = "IBRUN_GDB"

// parseRank takes the rank that a command shall run beside.
func (r *request) parseRank(words []string) (rest []string, err error) {
	if r.verb != "pipe" && r.verb != "gdb" {
		return words, nil
	}
	if len(words) != 1 || r.ask.Ranks != "" {
		return nil, exit.Usagef("ctl %s needs one rank: see ibrun ctl --help", r.verb)
	}
	r.ask.Ranks, r.ask.Rows = words[0], 0
	if r.verb == "gdb" {
		r.ask.Command = strings.Fields(cmp.Or(r.gdb, os.Getenv(gdbVariable), "gdb -q"))
	}
	return nil, nil
}

// terminal is the user's, while a debugger has it.
type terminal struct {
	mu    sync.Mutex
	modes *unix.Termios // as they were; nil: they are as they were
}

// take makes the terminal raw, if standard input is one.
func (t *terminal) take() {
	modes, err := unix.IoctlGetTermios(int(os.Stdin.Fd()), unix.TCGETS)
	if err != nil {
		return
	}
	raw := proc.Raw(*modes)
	t.mu.Lock()
	defer t.mu.Unlock()
	if proc.SetConsole(os.Stdin, unix.TCSETS, &raw) {
		t.modes = modes
	}
}

// give leaves the terminal as it was.
func (t *terminal) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.modes != nil {
		proc.SetConsole(os.Stdin, unix.TCSETSW, t.modes)
		t.modes = nil
	}
}

// window is the size of the user's terminal; nil: there is none.
func window() *control.Window {
	size, err := unix.IoctlGetWinsize(int(os.Stdin.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return nil
	}
	return &control.Window{Rows: size.Row, Cols: size.Col}
}

// talk runs a daemon that reads standard input.
func (r *request) talk(job string, c *control.Client, stdout io.Writer) error {
	var user terminal
	if r.verb == "gdb" {
		r.ask.Window = window()
		defer user.give()
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
		defer signal.Stop(ended)
		go func() {
			if s, ok := (<-ended).(syscall.Signal); ok {
				user.give()
				os.Exit(128 + int(s))
			}
		}()
	}
	err := c.Ask(r.ask, func(got control.Response) error {
		switch {
		case got.Session != nil && r.verb == "gdb":
			user.take()
			in := &input{job: job, session: got.Session.ID}
			go in.sizes()
			go in.send()
		case got.Session != nil:
			go (&input{job: job, session: got.Session.ID}).send()
		case got.Ends != nil:
			user.give()
			return r.ended(stdout, got)
		default:
			return r.show(c, stdout, got)
		}
		return nil
	})
	if errors.Is(err, control.ErrOver) {
		return fmt.Errorf("%w: what ran beside rank %s ended with it", err, r.ask.Ranks)
	}
	return err
}

// ended is how the daemon has ended: the exit code, and why it is not 0.
func (r *request) ended(stdout io.Writer, got control.Response) error {
	switch {
	case r.json:
	case got.Ends.Over > 0:
		return fmt.Errorf("rank %s has ended", r.ask.Ranks)
	case got.Ends.Code == 127 && r.verb == "gdb":
		for i := range got.Ends.Failed {
			got.Ends.Failed[i].Cause += "; hint: install it there, or name another debugger: --gdb COMMAND"
		}
	}
	return r.show(nil, stdout, got)
}

// input sends standard input to a daemon, over a call of its own: the first one waits for answers.
type input struct {
	job     string
	session uint32

	mu   sync.Mutex
	call *control.Client // nil: nothing was sent yet
}

// most bytes of input in one request.
const mostInput = 32 << 10

func (in *input) put(r control.Request) (err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.call == nil {
		if in.call, err = control.Dial(in.job); err != nil {
			return err
		}
	}
	r.Verb, r.Session = "input", in.session
	return in.call.Ask(r, func(control.Response) error { return nil })
}

// send sends what is read, up to its end. The daemon's end is not its business: it may have read
// enough.
func (in *input) send() {
	buf := make([]byte, mostInput)
	for {
		n, err := proc.ReadConsole(os.Stdin, buf)
		r := control.Request{}
		r.Data, r.Last = buf[:n], err != nil
		if in.put(r) != nil || err != nil {
			return
		}
	}
}

// sizes sends each new size of the terminal.
func (in *input) sizes() {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	for range changed {
		size := window()
		if size == nil || *size == (control.Window{}) {
			continue
		}
		if in.put(control.Request{Window: size}) != nil {
			return
		}
	}
}
