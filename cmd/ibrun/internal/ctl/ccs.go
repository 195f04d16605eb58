package ctl

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"ibrun/internal/exit"
)

// mostCCSData is how many bytes a request to a program may have here: a line of the control socket
// is bounded, and grows by a third.
const mostCCSData = 44 << 10

// ccsHelp is the part of Help about requests to programs of Charm++.
const ccsHelp = `  ccs [JOB] HANDLER < DATA
                    send a request to a program of Charm++, and print the reply
`

// ccs completes a request to a program from the words after the verb.
func (r *request) ccs(words []string) error {
	if len(words) == 2 && r.job == "" {
		r.job, words = words[0], words[1:]
	}
	if len(words) != 1 {
		return exit.Usagef("ctl ccs needs the name of one handler: see ibrun ctl --help")
	}
	r.ask.Handler, r.ask.Rows = words[0], 0
	return nil
}

// setPE takes the processing element that a request is for.
func (r *request) setPE(value string) error {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return exit.Usagef("--pe %s: a number from 0 on", value)
	}
	pe := int32(n)
	r.ask.PE = &pe
	return nil
}

// readRequest reads what a request carries, unless it would be typed.
func (r *request) readRequest(in *os.File) (err error) {
	if _, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS); err == nil {
		return nil
	}
	r.ask.Data, err = io.ReadAll(io.LimitReader(in, mostCCSData+1))
	if err == nil && len(r.ask.Data) > mostCCSData {
		return fmt.Errorf("a request has at most %d bytes here; hint: ibrun --ccs-port takes more", mostCCSData)
	}
	return err
}
