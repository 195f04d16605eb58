package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"ibrun/bootstrap/spawn"
	"ibrun/bootstrap/wire"
	"ibrun/internal/exit"
	"ibrun/internal/owned"
	"ibrun/internal/plural"
	"ibrun/internal/pseudo"
	"ibrun/internal/report"
	"ibrun/job"
	"ibrun/topo"
	"ibrun/topo/capture"
	"ibrun/topo/draw"
)

// kinds are what objects of a command line are called in a machine.
var kinds = map[job.Object]topo.Kind{
	job.HWThread: topo.PU, job.Core: topo.Core, job.L3: topo.L3, job.NUMA: topo.NUMA, job.Package: topo.Package,
}

// machine reads --topo-input, or this machine.
func (r *request) machine() (*topo.Machine, error) {
	if r.topoInput == "" {
		return topo.Read(pseudo.Here()), nil
	}
	tree, err := capture.Open(r.topoInput)
	if err != nil {
		return nil, exit.Usagef("--topo-input: %v", err)
	}
	return topo.Read(tree), nil
}

// example is the machine that nodes are taken to be like before they are asked.
func (r *request) example() string {
	if r.topoInput == "" {
		return "this machine"
	}
	return r.topoInput
}

// showMachine is ibrun --display topo without a program.
func showMachine(r *request) int {
	m, err := r.machine()
	if err != nil {
		return complain(err)
	}
	if err := writeMachine(os.Stdout, m, r.binding.Data); err != nil {
		return complain(err)
	}
	return 0
}

func writeMachine(w io.Writer, m *topo.Machine, asJSON bool) error {
	text := draw.Picture(m)
	if asJSON {
		b, err := draw.JSON(m)
		if err != nil {
			return err
		}
		text = strings.TrimSuffix(string(b), "\n") + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// captureTo is ibrun --capture FILE: a tar, packed, since most of it is zeros.
func captureTo(name string) int {
	f, err := owned.Replace(name)
	if err != nil {
		return complain(exit.Usagef("--capture: %v", err))
	}
	z := gzip.NewWriter(f)
	err = errors.Join(capture.Write(z, os.DirFS("/")), z.Close(), f.Close())
	if err != nil {
		return complain(fmt.Errorf("--capture %s: %w", name, err))
	}
	return 0
}

// foretell is a dry run. Where data is asked for, standard output has lines of JSON
// only, and what is for the user goes to standard error.
func foretell(r *request, p *plan) int {
	b := p.job.Binding
	human := os.Stdout
	if b.Data && (b.Report || b.Topo) {
		human = os.Stderr
	}
	if r.showAlloc {
		describeAllocation(human, p)
	}
	describe(human, p)
	if !b.Report && !b.Topo {
		return 0
	}
	return predict(r, p, human)
}

// predict adds what --display bind and topo ask for, as if every node were like one
// machine.
func predict(r *request, p *plan, human io.Writer) int {
	b := p.job.Binding
	m, err := r.machine()
	if err != nil {
		return complain(err)
	}
	if b.Topo {
		fmt.Fprintf(human, "topology of %s, which every node is taken to be like:\n", r.example())
		if err := writeMachine(os.Stdout, m, b.Data); err != nil {
			return complain(err)
		}
	}
	if !b.Report {
		return 0
	}
	say, notes := &report.Reporter{To: os.Stdout, Layout: p.job.Layout, JSON: b.Data}, &report.Reporter{To: human}
	at := 0
	for k, run := range p.nodes.Runs() {
		if k == shownRuns && !b.Data {
			fmt.Printf("         and %s more\n", plural.Of(p.nodes.Len()-at, "node"))
			break
		}
		placed, texts, err := spawn.Predict(m, p.job, p.nodes.At(at))
		if err != nil {
			return complain(exit.With(exit.Self, fmt.Errorf("%s: %w", run.Host(0), err)))
		}
		for _, text := range texts {
			notes.Notice(wire.Notice{Host: run.Host(0), Text: text})
		}
		for i := range run.Count {
			n := p.nodes.At(at + int(i))
			say.Predicted(n, placed)
		}
		at += int(run.Count)
	}
	return 0
}

// narrow says if this machine's ranks are crowded because whoever started ibrun
// left it few of the CPUs: a resource manager's step does that easily.
func narrow(m *topo.Machine, ranks int) string {
	if ranks <= m.Allowed.Len() || m.Allowed.Len() == m.Online.Len() {
		return ""
	}
	return fmt.Sprintf("this process may use CPUs %v of %v here, as whoever started it left it: %s share them unbound; start ibrun with all CPUs of the allocation (srun: --cpu-bind=none, -c)",
		m.Allowed, m.Online, plural.Of(ranks, "rank"))
}
