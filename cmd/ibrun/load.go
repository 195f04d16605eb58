package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"

	"ibrun/bootstrap/agent"
	"ibrun/internal/plural"
	"ibrun/internal/pseudo"
	"ibrun/internal/report"
	"ibrun/job"
	"ibrun/topo"
)

// loadRole is the hidden role that says what a node has to give.
const loadRole = ":load"

// loadMain prints how many cores' worth of time is free here, in hundredths.
func loadMain() int {
	fmt.Println(weight(topo.Read(pseudo.Here())))
	return 0
}

// weight is what a node has to give, in hundredths of a core: the cores that
// are allowed, no more than cpu.max grants, less what runs already. A busy node
// keeps a tenth, so that it is not left out for a passing load.
func weight(m *topo.Machine) uint32 {
	have := float64(allowedCores(m))
	if m.Quota > 0 {
		have = min(have, m.Quota)
	}
	free := max(have-max(m.Load, 0), have/10)
	return uint32(math.Ceil(100 * free))
}

// allowedCores is the number of cores of which something is allowed.
func allowedCores(m *topo.Machine) (n uint32) {
	for _, c := range m.Cores {
		if c.CPUs.Meets(m.Allowed) {
			n++
		}
	}
	return n
}

// measureLoad asks every node of the allocation what it has to give, with a job of
// one rank on each that runs ibrun itself. The code is not 0 if a node could
// not be asked, which the reporter has said by then.
func (r *request) measureLoad(at surroundings, say *report.Reporter) (code int, err error) {
	ask := newRequest()
	ask.hosts, ask.exclude, ask.noLocal = r.everywhere(), r.exclude, r.noLocal
	ask.manager = r.manager
	ask.launch, ask.tree, ask.perNode, ask.preflight, ask.stdin = r.launch, r.tree, 1, false, "none"
	ask.binding.Bind = job.Unbound
	ask.segments = []segment{{argv: []string{"/proc/self/exe", loadRole}, dir: "/"}}
	p, err := makePlan(ask, at)
	if err != nil {
		return 0, err
	}
	var out bytes.Buffer
	o, err := conduct(p, at, agent.RootConfig{Out: agent.NewSink(&out, os.Stderr, agent.Style{Label: true}), Report: say.Event, Warn: say.Warn})
	if err != nil {
		return 0, err
	}
	if o.Code != 0 {
		say.Outcome(o, 0, false)
		return o.Code, nil
	}
	r.weights = map[string]uint32{}
	for line := range strings.Lines(out.String()) {
		var rank int
		var w uint32
		if n, _ := fmt.Sscanf(line, "[%d] %d", &rank, &w); n == 2 && rank < p.nodes.Len() {
			r.weights[p.nodes.At(rank).Host] = w
		}
	}
	if len(r.weights) < p.nodes.Len() {
		return 0, fmt.Errorf("--map-by load: %s of %d did not say what they have to give", plural.Of(p.nodes.Len()-len(r.weights), "node"), p.nodes.Len())
	}
	return 0, nil
}
