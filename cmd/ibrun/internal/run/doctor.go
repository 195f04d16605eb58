package run

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
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/cmd/ibrun/internal/doctor"
	"ibrun/cmd/ibrun/internal/plan"
	"ibrun/cmd/ibrun/internal/report"
	"ibrun/internal/exit"
	"ibrun/internal/hostlist"
	"ibrun/internal/job"
	"ibrun/internal/proc"
)

// DoctorRole is the hidden role that examines a node. Its argument is what
// --iface says.
const DoctorRole = ":doctor"

// doctorTime is how long one round may take unless --timeout says so: a file
// system that hangs must not hang the doctor.
const doctorTime = time.Minute

// DoctorMain prints this node's report in one line.
func DoctorMain(args []string) int {
	iface := ""
	if len(args) > 0 {
		iface = args[0]
	}
	if err := json.NewEncoder(os.Stdout).Encode(doctor.Here(iface).Report()); err != nil {
		fmt.Fprintf(os.Stderr, "ibrun: %v\n", err)
		return exit.Self
	}
	return 0
}

// Doctor is ibrun --doctor. The code is 1 if something is wrong with a node.
func Doctor(r *cli.Request, at plan.Surroundings, reporter *report.Reporter) (code int, err error) {
	e := examination{Request: r, at: at, reporter: reporter, node: map[string]*doctor.Node{}}
	code, err = e.all()
	if err != nil || code != 0 {
		return code, err
	}
	nodes := make([]doctor.Node, 0, len(e.order))
	for _, name := range e.order {
		nodes = append(nodes, *e.node[name])
	}
	found := doctor.Judge(nodes, r.Fabric == "ib")
	if r.Binding.Data {
		err = doctor.WriteJSON(proc.ConsoleWriter(os.Stdout), nodes, found)
	} else {
		err = doctor.Print(proc.ConsoleWriter(os.Stdout), nodes, found, r.Quiet)
	}
	if err != nil {
		return 0, err
	}
	if doctor.Count(found)[doctor.Error] > 0 {
		return 1, nil
	}
	return 0, nil
}

// examination is the rounds by which nodes are examined: first over the tree
// that a job would use, then from this machine alone, with those that were not
// heard of, since a node that cannot be reached ends a launch.
type examination struct {
	*cli.Request
	at       plan.Surroundings
	reporter *report.Reporter
	order    []string // names, as the user has them
	node     map[string]*doctor.Node
}

func (e *examination) all() (code int, err error) {
	ask := cli.NewRequest()
	ask.Hosts, ask.Exclude, ask.NoLocal, ask.Tree = e.Hosts, e.Exclude, e.NoLocal, e.Tree
	for first := true; ; first = false {
		p, err := e.plan(ask)
		if err != nil {
			return 0, err
		}
		if first {
			for _, w := range p.Warnings {
				e.reporter.Line("%s", w)
			}
			for i := range p.Nodes.Len() {
				e.meet(p, i)
			}
		}
		if code, err := e.round(p, first); err != nil || code != 0 {
			return code, err
		}
		rest := e.rest(p)
		if len(rest) == 0 {
			return 0, nil
		}
		if !first && len(rest) == p.Nodes.Len() {
			e.giveUp("examine", "it was started and said nothing")
			return 0, nil
		}
		ask.Hosts, ask.Exclude, ask.NoLocal, ask.Tree = cli.HostList{Entries: rest}, nil, false, "flat"
	}
}

// plan is a job of one rank on each node that runs the hidden role. Its
// environment is the node's own, but for where libraries are.
func (e *examination) plan(ask *cli.Request) (*plan.Plan, error) {
	ask.Launch, ask.PerNode, ask.Preflight, ask.Stdin, ask.MPI = e.Launch, 1, false, "none", job.MPINone
	ask.KillOnBad, ask.Timeout, ask.Manager = false, e.Timeout, e.Manager
	if ask.Timeout == 0 {
		ask.Timeout = doctorTime
	}
	ask.Env = cli.EnvironRules{Limited: true, Chosen: []string{"LD_LIBRARY_PATH"}}
	ask.Binding.Bind = job.Unbound
	ask.Segments = []cli.Segment{{Argv: []string{"/proc/self/exe", DoctorRole, e.Iface}, Dir: "/"}}
	p, err := plan.New(ask, e.at, NewIdentity())
	if err != nil {
		return nil, err
	}
	p.Warnings = slices.DeleteFunc(p.Warnings, func(w string) bool {
		return strings.HasPrefix(w, "LD_LIBRARY_PATH ") // nobody asked for it
	})
	return p, nil
}

// meet adds a node of the first plan.
func (e *examination) meet(p *plan.Plan, i int) {
	how := p.Job.Launch.Launcher
	if len(p.Job.Launch.Exec) > 0 {
		how = filepath.Base(p.Job.Launch.Exec[0])
	}
	if i == p.Here {
		how = "here"
	}
	name := p.Nodes.At(i).Host
	e.order = append(e.order, name)
	e.node[name] = &doctor.Node{Name: name, How: how}
}

// rest are the hosts of a plan of which nothing is known yet.
func (e *examination) rest(p *plan.Plan) (rest []hostlist.Entry) {
	for i := range p.Nodes.Len() {
		n := p.Nodes.At(i)
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
func (e *examination) round(p *plan.Plan, first bool) (code int, err error) {
	began := time.Now()
	reports := &results{}
	o, err := Job(p, e.at, agent.RootConfig{
		Out: agent.NewSink(reports, proc.ConsoleWriter(os.Stderr), agent.Style{Label: true}), Warn: e.reporter.Warn,
		Report: func(what any) {
			if _, is := what.(wire.Fault); !is { // those go into the table
				e.reporter.Event(what)
			}
		},
	})
	if err != nil {
		return 0, err
	}
	for _, a := range reports.take() {
		if a.rank < p.Nodes.Len() {
			e.record(e.node[p.Nodes.At(a.rank).Host], a, began)
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
		case f.What == wire.FaultFork:
			lost.Phase = "start"
		case f.What == wire.FaultLost:
			lost.Phase = "lost"
		case f.What == wire.FaultLaunch:
			lost.From = f.Parent
		}
		if first && f.What == wire.FaultLaunch && f.Parent != e.at.Host {
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
		e.reporter.Outcome(o, 0, false)
		return o.Code, nil
	case core.CauseTimeout:
		e.giveUp("examine", fmt.Sprintf("no word in %v (--timeout)", p.Policy.Timeout))
	}
	return 0, nil
}

// record takes a node's report. Its clock was read after the launch began and
// before the report was here.
func (e *examination) record(node *doctor.Node, a answer, began time.Time) {
	var r doctor.Report
	if err := json.Unmarshal(a.line, &r); err != nil {
		node.Lost = &doctor.Lost{Phase: "examine", Cause: "it said something else than a report: " + err.Error()}
		return
	}
	ahead := func(of time.Time) float64 { return time.Unix(0, r.Time).Sub(of).Seconds() }
	node.Report, node.Answer = &r, a.at.Sub(began).Seconds()
	node.Clock = &doctor.Clock{Least: ahead(a.at), Most: ahead(began)}
}

// results collects lines with their ranks and the time at which they came.
type results struct {
	mu  sync.Mutex // the sink's goroutine may outlive its job when it cannot write
	all []answer
}

type answer struct {
	rank int
	line []byte
	at   time.Time
}

// Write takes whole lines, as a sink with labels writes them.
func (a *results) Write(b []byte) (int, error) {
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

func (a *results) take() []answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all
}
