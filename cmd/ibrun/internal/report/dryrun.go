package report

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"ibrun/bootstrap/spawn"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/cmd/ibrun/internal/plan"
	"ibrun/internal/plain"
	"ibrun/topo"
	"ibrun/topo/show"
)

// DryRun is a dry run. Where data is asked for, standard output has lines of JSON
// only, and what is for the user goes to standard error.
func DryRun(r *cli.Request, p *plan.Plan, at plan.Surroundings) error {
	b := p.Job.Binding
	human := os.Stdout
	if b.Data && (b.Report || b.Topo) {
		human = os.Stderr
	}
	if r.ShowAlloc {
		DescribeAllocation(human, p)
	}
	Describe(human, p)
	if !b.Report && !b.Topo {
		return nil
	}
	return predict(r, p, at, human)
}

// predict adds what --display bind and topo ask for, as if every node were like one
// machine.
func predict(r *cli.Request, p *plan.Plan, at plan.Surroundings, human io.Writer) error {
	b := p.Job.Binding
	m, err := at.Machine(r.TopoInput)
	if err != nil {
		return err
	}
	if b.Topo {
		fmt.Fprintf(human, "topology of %s, which every node is taken to be like:\n",
			cmp.Or(r.TopoInput, "this machine"))
		if err := WriteMachine(os.Stdout, m, b.Data); err != nil {
			return err
		}
	}
	if !b.Report {
		return nil
	}
	out, notes := &Reporter{To: os.Stdout, Layout: p.Job.Layout, JSON: b.Data}, &Reporter{To: human}
	first := 0
	for k, run := range p.Nodes.Runs() {
		if k == shownRuns && !b.Data {
			fmt.Printf("         and %s more\n", plain.Plural(p.Nodes.Len()-first, "node"))
			break
		}
		placed, texts, err := spawn.Predict(m, p.Job, p.Nodes.At(first))
		if err != nil {
			return fmt.Errorf("%s: %w", run.Host(0), err)
		}
		for _, text := range texts {
			notes.Notice(rankwire.Notice{Host: run.Host(0), Text: text})
		}
		for i := range run.Count {
			out.Predicted(p.Nodes.At(first+int(i)), placed)
		}
		first += int(run.Count)
	}
	return nil
}

// WriteMachine draws a machine, or writes it as data.
func WriteMachine(w io.Writer, m *topo.Machine, asJSON bool) error {
	text := show.Picture(m)
	if asJSON {
		b, err := show.JSON(m)
		if err != nil {
			return err
		}
		text = strings.TrimSuffix(string(b), "\n") + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
