package run

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"

	"ibrun/bootstrap/agent"
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/cmd/ibrun/internal/plan"
	"ibrun/cmd/ibrun/internal/report"
	"ibrun/internal/job"
	"ibrun/internal/plain"
	"ibrun/internal/proc"
	"ibrun/topo"
)

// LoadRole is the hidden role that says what a node has to give.
const LoadRole = ":load"

// LoadMain prints how many cores' worth of time is free here, in hundredths.
func LoadMain() int {
	fmt.Println(weight(topo.Read(proc.Here())))
	return 0
}

// weight is what a node has to give, in hundredths of a core: the cores that
// are allowed, no more than cpu.max grants, less what runs already. A busy node
// keeps a tenth, so that it is not left out for a passing load.
func weight(m *topo.Machine) uint32 {
	have := float64(m.AllowedCores())
	if m.Quota > 0 {
		have = min(have, m.Quota)
	}
	free := max(have-max(m.Load, 0), have/10)
	return uint32(math.Ceil(100 * free))
}

// Load asks every node of the allocation what it has to give, with a job of
// one rank on each that runs ibrun itself. The code is not 0 if a node could
// not be asked, which the reporter has said by then.
func Load(
	r *cli.Request, at plan.Surroundings, reporter *report.Reporter,
) (weights map[string]uint32, code int, err error) {
	ask := cli.NewRequest()
	ask.Hosts, ask.Exclude, ask.NoLocal = r.Everywhere(), r.Exclude, r.NoLocal
	ask.Manager = r.Manager
	ask.Launch, ask.Tree, ask.PerNode, ask.Preflight, ask.Stdin = r.Launch, r.Tree, 1, false, "none"
	ask.Binding.Bind, ask.Launch.TraceEvents = job.Unbound, ""
	ask.Segments = []cli.Segment{{Argv: []string{"/proc/self/exe", LoadRole}, Dir: "/"}}
	p, err := plan.New(ask, at, NewIdentity())
	if err != nil {
		return nil, 0, err
	}
	var out bytes.Buffer
	o, err := Job(p, at, agent.RootConfig{
		Out:    agent.NewSink(&out, proc.ConsoleWriter(os.Stderr), agent.Style{Label: true}),
		Report: reporter.Event, Warn: reporter.Warn,
	})
	if err != nil {
		return nil, 0, err
	}
	if o.Code != 0 {
		reporter.Outcome(o, 0, false)
		return nil, o.Code, nil
	}
	weights = map[string]uint32{}
	for line := range strings.Lines(out.String()) {
		var rank int
		var w uint32
		if n, _ := fmt.Sscanf(line, "[%d] %d", &rank, &w); n == 2 && rank < p.Nodes.Len() {
			weights[p.Nodes.At(rank).Host] = w
		}
	}
	if len(weights) < p.Nodes.Len() {
		return nil, 0, fmt.Errorf("--map-by load: %s of %d did not say what they have to give",
			plain.Plural(p.Nodes.Len()-len(weights), "node"), p.Nodes.Len())
	}
	return weights, 0, nil
}
