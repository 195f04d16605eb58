package ctl

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/control"
	"ibrun/internal/exit"
	"ibrun/internal/plain"
)

// list is a table of the jobs. One that ends meanwhile is left out.
func (r *request) list(stdout io.Writer) error {
	ids, err := control.Jobs()
	if err != nil {
		return err
	}
	switch {
	case r.json:
	case len(ids) == 0:
		_, err := fmt.Fprintln(stdout, "no job runs")
		return err
	default:
		fmt.Fprintf(stdout, "%-16s  %7s  %7s  %7s  %8s  %-9s  %s\n", "JOB", "PID", "NODES", "RANKS", "SINCE", "STATE",
			"PROGRAM")
	}
	for _, id := range ids {
		j, err := about(id)
		if err != nil {
			continue
		}
		if r.json {
			if err := json.NewEncoder(stdout).Encode(control.Response{Job: j}); err != nil {
				return err
			}
			continue
		}
		since := time.Since(j.Since).Round(time.Second)
		fmt.Fprintf(stdout, "%-16s  %7d  %7d  %7d  %8v  %-9s  %s\n", j.ID, j.PID, j.Nodes, j.Ranks, since, j.State,
			plain.Text(j.Program))
	}
	return nil
}

// show prints one response.
func (r *request) show(c *control.Client, stdout io.Writer, got control.Response) error {
	if got.Ends != nil {
		r.code = got.Ends.Code
		if got.Ends.Daemons == 0 && r.code == 0 {
			r.code = exit.Self
		}
	}
	if r.json {
		return json.NewEncoder(stdout).Encode(got)
	}
	switch s := got.Standing; {
	case got.Ends != nil:
		return lines(os.Stderr, ends(got.Ends))
	case got.Reply != nil:
		_, err := stdout.Write(got.Reply.Data)
		return err
	case got.Output != nil:
		return output(stdout, got.Output)
	case got.Size != nil:
		return size(stdout, got.Size)
	case got.Job != nil:
		_, err := fmt.Fprintf(stdout, "process %d has a table of %s for debuggers\n", got.Job.PID,
			plain.Plural(int(got.Job.Ranks), "rank"))
		return err
	case s == nil:
		return nil
	case r.verb == "status":
		ranks, cpu, memory := s.Totals()
		fmt.Fprintf(stdout, "%s on %s; CPU time %s, memory %s\n", plain.Plural(int(ranks), "rank"),
			plain.Plural(int(s.Nodes), "node"), control.TimeText(cpu), control.BytesText(memory))
		return lines(stdout, s.Summary(), s.Collectives())
	case r.verb == "ranks":
		return lines(stdout, s.Table(false), s.Collectives())
	case r.verb == "stacks":
		return lines(stdout, s.Stacks())
	default:
		return lines(stdout, s.Summary())
	}
}

// lines prints lines. What ranks and hosts are called is shown harmlessly.
func lines(w io.Writer, all ...[]string) error {
	var text strings.Builder
	for _, some := range all {
		for _, line := range some {
			text.WriteString(plain.Text(line) + "\n")
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// ends is what is said of daemons that did not end well.
func ends(e *control.Ends) (text []string) {
	for _, f := range e.Failed {
		where := f.Host
		if f.Rank != nil {
			where = fmt.Sprintf("%s, beside rank %d", f.Host, *f.Rank)
		}
		text = append(text, fmt.Sprintf("ibrun: %s: code %d: %s", where, f.Code, f.Cause))
	}
	if e.More > 0 {
		text = append(text, fmt.Sprintf("ibrun: %s failed, too", plain.Plural(int(e.More), "daemon")))
	}
	if e.Lost > 0 {
		text = append(text, fmt.Sprintf("ibrun: %s with daemons lost", plain.Plural(int(e.Lost), "node")))
	}
	if e.Over > 0 {
		text = append(text, fmt.Sprintf("ibrun: %s had no ranks any more: no daemon ran there",
			plain.Plural(int(e.Over), "node")))
	}
	if e.Dropped > 0 {
		text = append(text, fmt.Sprintf("ibrun: %d bytes of output were not taken in time, and are lost", e.Dropped))
	}
	return text
}

func output(stdout io.Writer, o *control.Output) error {
	if o.Lost > 0 {
		_, err := fmt.Fprintf(os.Stderr, "ibrun: %d bytes were not shown: they came too fast\n", o.Lost)
		return err
	}
	to := stdout
	if o.Stream == 2 {
		to = os.Stderr
	}
	_, err := to.Write(o.Data)
	return err
}

// The words by which a terminal goes to its first line, and clears what is below.
const (
	home  = "\x1b[H"
	clear = "\x1b[J"
	erase = "\x1b[K" // to the end of the line
)

// top shows the ranks again and again until the job is over.
func (r *request) top(c *control.Client, stdout io.Writer) error {
	for first := true; ; first = false {
		size, _ := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ)
		live := !r.once && size != nil && size.Row > 4
		ask := r.ask
		if live {
			ask.Rows = min(ask.Rows, uint32(size.Row)-4)
		}
		err := c.Ask(ask, func(got control.Response) error {
			if r.json {
				return json.NewEncoder(stdout).Encode(got)
			}
			if got.Standing == nil {
				return nil
			}
			page := page(got.Standing)
			if live {
				return draw(stdout, page, first, int(size.Row), int(size.Col))
			}
			return lines(stdout, page)
		})
		if err == control.ErrOver && !first {
			return nil
		}
		if err != nil || r.once {
			return err
		}
		time.Sleep(r.interval)
	}
}

// page is one picture of top.
func page(s *control.Standing) []string {
	ranks, cpu, memory := s.Totals()
	head := fmt.Sprintf("%s  %s on %s  CPU time %s  memory %s", time.Now().Format("15:04:05"),
		plain.Plural(int(ranks), "rank"), plain.Plural(int(s.Nodes), "node"), control.TimeText(cpu),
		control.BytesText(memory))
	waits := s.Collectives()
	if len(waits) > 1 {
		waits = append(waits[:1], fmt.Sprintf("and %d more collectives", len(waits)-1))
	}
	return append(append([]string{head}, waits...), s.Table(true)...)
}

// draw puts a picture on a terminal, over the one before.
func draw(w io.Writer, page []string, first bool, rows, cols int) error {
	text := home
	if first {
		text = home + clear
	}
	for i, line := range page[:min(len(page), rows-1)] {
		if i > 0 {
			text += "\r\n"
		}
		shown := []rune(plain.Text(line))
		text += string(shown[:min(len(shown), cols)]) + erase
	}
	_, err := io.WriteString(w, text+"\r\n"+clear)
	return err
}

// size writes the number of ranks and nodes that the job has, or that it will have after the program calls Resize.
func size(w io.Writer, s *control.Size) error {
	what := fmt.Sprintf("%s on %s", plain.Plural(int(s.Ranks), "rank"), plain.Plural(int(s.Nodes), "node"))
	if s.Waits {
		_, err := fmt.Fprintf(w, "ready for %s: waiting until the program calls Resize\n", what)
		return err
	}
	_, err := fmt.Fprintf(w, "the job has %s\n", what)
	return err
}
