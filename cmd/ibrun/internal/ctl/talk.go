package ctl

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/control"
	"ibrun/internal/proc"
)

// takesCommand reports whether what follows some words is a command.
func takesCommand(words []string) bool {
	return len(words) == 1 && words[0] == "exec" || len(words) == 2 && words[0] == "pipe"
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
	user := proc.RawTerminal{File: os.Stdin}
	if r.verb == "gdb" {
		r.ask.Window = window()
		defer user.Give()
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
		defer signal.Stop(ended)
		go func() {
			if s, ok := (<-ended).(syscall.Signal); ok {
				user.Give()
				os.Exit(128 + int(s))
			}
		}()
	}
	err := c.Ask(r.ask, func(got control.Response) error {
		switch {
		case got.Session != nil:
			in := &input{job: job, session: got.Session.ID}
			if r.verb == "gdb" {
				user.Take()
				go in.sizes()
			}
			go in.send()
		case got.Ends != nil:
			user.Give()
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

// mostCCSData is the maximum size in bytes of the request data of ibrun ctl ccs. The data is sent as JSON, which makes
// it a third longer, and the length of a line on the control socket is limited.
const mostCCSData = 44 << 10

// readRequest reads the request data of ibrun ctl ccs from in. If in is a terminal, readRequest reads nothing.
func (r *request) readRequest(in *os.File) (err error) {
	if proc.IsTerminal(in) {
		return nil
	}
	r.ask.Data, err = io.ReadAll(io.LimitReader(in, mostCCSData+1))
	if err == nil && len(r.ask.Data) > mostCCSData {
		return fmt.Errorf("a request has at most %d bytes here; hint: ibrun --ccs-port takes more", mostCCSData)
	}
	return err
}
