package ctl

import (
	"fmt"
	"io"
	"strconv"

	"ibrun/bootstrap/control"
	"ibrun/internal/exit"
	"ibrun/internal/plain"
)

// parseSize takes the word of grow and shrink.
func (r *request) parseSize(words []string) (rest []string, err error) {
	switch r.verb {
	case "grow":
		if len(words) != 1 || words[0] == "" {
			return nil, exit.Usagef("ctl grow needs one list of hosts: n[9-12],x:4, say")
		}
		r.ask.Hosts = words[0]
	case "shrink":
		if len(words) != 1 {
			return nil, exit.Usagef("ctl shrink needs a number of nodes")
		}
		n, err := strconv.ParseUint(words[0], 10, 32)
		if err != nil || n == 0 {
			return nil, exit.Usagef("ctl shrink %s: not a number of nodes", words[0])
		}
		r.ask.Nodes = uint32(n)
	default:
		return words, nil
	}
	r.ask.Rows = 0
	return nil, nil
}

// size says how far a change of the job's size is.
func size(w io.Writer, s *control.Size) error {
	what := fmt.Sprintf("%s on %s", plain.Plural(int(s.Ranks), "rank"), plain.Plural(int(s.Nodes), "node"))
	if s.Waits {
		_, err := fmt.Fprintf(w, "ready for %s: waiting until the program calls Resize\n", what)
		return err
	}
	_, err := fmt.Fprintf(w, "the job has %s\n", what)
	return err
}
