package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ibrun/bootstrap/agent"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/doctor"
	"ibrun/doctor/examine"
	"ibrun/doctor/findings"
	"ibrun/internal/exit"
	"ibrun/internal/hostlist"
	"ibrun/internal/report"
	"ibrun/job"
)

// doctorRole is the hidden role that examines a node. Its argument is what
// --iface says.
const doctorRole = ":doctor"

// doctorTime is how long one round may take unless --timeout says so: a file
// system that hangs must not hang the doctor.
const doctorTime = time.Minute

// doctorMain prints this node's report in one line.
func doctorMain(args []string) int {
	iface := ""
	if len(args) > 0 {
		iface = args[0]
	}
	b, err := json.Marshal(examine.Here(iface).Report())
	if err == nil {
		_, err = os.Stdout.Write(append(b, '\n'))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "ibrun: %v\n", err)
		return exit.Self
	}
	return 0
}

// checkDoctor refuses what an examination does not do.
func (r *request) checkDoctor() error {
	switch {
	case len(r.segments) > 0:
		return exit.Usagef("--doctor runs no program: leave out %s", quoteAll(r.segments[0].argv))
	case r.now.ranks > 0 || r.perNode > 0 || r.offset > 0:
		return exit.Usagef("--doctor examines each node once: leave out -n, -ppn and -o; --hosts says which nodes")
	case r.showMap || r.binding.Report || r.binding.Topo:
		return exit.Usagef("--doctor contradicts --display: write one of them")
	}
	return r.finish()
}

// examine is ibrun --doctor.
func (r *request) examine(at surroundings, say *report.Reporter) int {
	e := examination{request: r, at: at, say: say, node: map[string]*doctor.Node{}}
	code, err := e.all()
	if err != nil {
		return complain(err)
	} else if code != 0 {
		return code
	}
	nodes := make([]doctor.Node, 0, len(e.order))
	for _, name := range e.order {
		nodes = append(nodes, *e.node[name])
	}
	found := doctor.Judge(nodes, doctor.Want{IB: r.fabric == "ib"})
	if r.binding.Data {
		err = findings.WriteJSON(os.Stdout, nodes, found)
	} else {
		err = findings.Print(os.Stdout, nodes, found, r.quiet)
	}
	if err != nil {
		return complain(err)
	}
	if doctor.Count(found)[doctor.Error] > 0 {
		return 1
	}
	return 0
}

// examination is the rounds by which nodes are examined: first over the tree
// that a job would use, then from this machine alone, with those that were not
// heard of, since a node that cannot be reached ends a launch.
type examination struct {
	*request
	at    surroundings
	say   *report.Reporter
	order []string // names, as the user has them
	node  map[string]*doctor.Node
}

func (e *examination) all() (code int, err error) {
	ask := newRequest()
	ask.hosts, ask.exclude, ask.noLocal, ask.tree = e.hosts, e.exclude, e.noLocal, e.tree
	for first := true; ; first = false {
		p, err := e.plan(ask)
		if err != nil {
			return 0, err
		}
		if first {
			for _, w := range p.warnings {
				e.say.Line("%s", w)
			}
			for i := range p.nodes.Len() {
				e.meet(p, i)
			}
		}
		before := e.settled()
		if code, err := e.round(p, first); err != nil || code != 0 {
			return code, err
		}
		ask.hosts, ask.exclude, ask.noLocal, ask.tree = hostList{entries: e.rest(p)}, nil, false, "flat"
		if !ask.hosts.named() {
			return 0, nil
		}
		if !first && e.settled() == before {
			e.giveUp("examine", "it was started and said nothing")
			return 0, nil
		}
	}
}

// plan is a job of one rank on each node that runs the hidden role. Its
// environment is the node's own, but for where libraries are.
func (e *examination) plan(ask *request) (*plan, error) {
	ask.launch, ask.perNode, ask.preflight, ask.stdin, ask.mpi = e.launch, 1, false, "none", job.MPINone
	ask.killOnBad, ask.timeout, ask.manager = false, e.timeout, e.manager
	if ask.timeout == 0 {
		ask.timeout = doctorTime
	}
	ask.env = environRules{limit: true, chosen: []string{"LD_LIBRARY_PATH"}}
	ask.binding.Bind = job.Unbound
	ask.segments = []segment{{argv: []string{"/proc/self/exe", doctorRole, e.iface}, dir: "/"}}
	p, err := makePlan(ask, e.at)
	if err != nil {
		return nil, err
	}
	p.warnings = slices.DeleteFunc(p.warnings, func(w string) bool { return strings.HasPrefix(w, "LD_LIBRARY_PATH ") }) // nobody asked for it
	return p, nil
}

// meet adds a node of the first plan.
func (e *examination) meet(p *plan, i int) {
	how := p.job.Launch.Launcher
	if len(p.job.Launch.Exec) > 0 {
		how = filepath.Base(p.job.Launch.Exec[0])
	}
	if i == p.here {
		how = "here"
	}
	name := p.nodes.At(i).Host
	e.order = append(e.order, name)
	e.node[name] = &doctor.Node{Name: name, How: how}
}

// settled is the number of nodes of which all is known.
func (e *examination) settled() (n int) {
	for _, node := range e.node {
		if node.Report != nil || node.Lost != nil {
			n++
		}
	}
	return n
}

// rest are the hosts of a plan of which nothing is known yet.
func (e *examination) rest(p *plan) (rest []hostlist.Entry) {
	for i := range p.nodes.Len() {
		n := p.nodes.At(i)
		if node := e.node[n.Host]; node.Report == nil && node.Lost == nil {
			rest = append(rest, hostlist.Entry{Prefix: n.Host, Count: 1, User: n.User, Slots: n.Slots})
		}
	}
	return rest
}

// giveUp says of all nodes that are left why nothing is known of them.
func (e *examination) giveUp(phase, cause string) {
	for _, node := range e.node {
		if node.Report == nil && node.Lost == nil {
			node.Lost = &doctor.Lost{Phase: phase, Cause: cause}
		}
	}
}

// round runs one job and notes what came of it. The code is not 0 if the user
// ended it.
func (e *examination) round(p *plan, first bool) (code int, err error) {
	began := time.Now()
	heard := &answers{}
	o, err := conduct(p, e.at, agent.RootConfig{
		Out: agent.NewSink(heard, os.Stderr, agent.Style{Label: true}), Warn: e.say.Warn,
		Report: func(what any) {
			if _, is := what.(wire.Fault); !is { // those go into the table
				e.say.Event(what)
			}
		},
	})
	if err != nil {
		return 0, err
	}
	for _, a := range heard.take() {
		if a.rank < p.nodes.Len() {
			e.hear(e.node[p.nodes.At(a.rank).Host], a, began)
		}
	}
	for _, f := range o.Faults {
		node := e.node[f.Host]
		if node == nil || node.Report != nil || node.Lost != nil {
			continue
		}
		lost := &doctor.Lost{Phase: f.Phase, Cause: f.Cause, Tail: f.Tail}
		switch {
		case f.What == wire.FaultRank:
			lost.Phase, lost.Cause = "examine", "its examination "+report.Ending(f.Status)
		case f.What == wire.FaultSpawn:
			lost.Phase = "start"
		case f.What == wire.FaultLost:
			lost.Phase = "lost"
		case f.What == wire.FaultLaunch:
			lost.From = f.Parent
		}
		if first && f.What == wire.FaultLaunch && f.Parent != e.at.host {
			node.Fallback = lost // perhaps only those two cannot reach it
			continue
		}
		node.Lost, node.Fallback = lost, nil
	}
	for _, f := range o.Fallbacks {
		if node := e.node[f.Host]; node != nil && node.Lost == nil {
			node.Fallback = &doctor.Lost{From: f.Parent, Phase: f.Phase, Cause: f.Cause}
		}
	}
	switch o.Cause {
	case core.CauseSignal:
		e.say.Outcome(o, 0, false)
		return o.Code, nil
	case core.CauseTimeout:
		e.giveUp("examine", fmt.Sprintf("no word in %v (--timeout)", p.policy.Timeout))
	}
	return 0, nil
}

// hear takes a node's report. Its clock was read after the launch began and
// before the report was here.
func (e *examination) hear(node *doctor.Node, a answer, began time.Time) {
	var r doctor.Report
	if err := json.Unmarshal(a.line, &r); err != nil {
		node.Lost = &doctor.Lost{Phase: "examine", Cause: "it said something else than a report: " + err.Error()}
		return
	}
	ahead := func(of time.Time) float64 { return time.Unix(0, r.Time).Sub(of).Seconds() }
	node.Report, node.Answer = &r, a.at.Sub(began).Seconds()
	node.Clock = &doctor.Clock{Least: ahead(a.at), Most: ahead(began)}
}

// answers collects lines with their ranks and the time at which they came.
type answers struct {
	mu  sync.Mutex // the sink's goroutine may outlive its job when it cannot write
	all []answer
}

type answer struct {
	rank int
	line []byte
	at   time.Time
}

// Write takes whole lines, as a sink with labels writes them.
func (a *answers) Write(b []byte) (int, error) {
	at := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for line := range bytes.Lines(b) {
		label, text, _ := bytes.Cut(line, []byte("] "))
		if rank, err := strconv.Atoi(strings.TrimPrefix(string(label), "[")); err == nil {
			a.all = append(a.all, answer{rank, bytes.Clone(text), at})
		}
	}
	return len(b), nil
}

func (a *answers) take() []answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all
}
