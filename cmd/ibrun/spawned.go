package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"ibrun/bootstrap/agent"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/internal/exit"
	"ibrun/internal/plain"
	"ibrun/internal/report"
	"ibrun/job"
)

// spawnedMain runs a job that a rank of another has spawned, with that job's
// hosts and options. Until all its ranks run, what goes wrong is told to the
// rank that asked, and to nobody else.
func spawnedMain() int {
	began := time.Now()
	parent, from, err := agent.OpenParent()
	if err != nil {
		return complain(err)
	}
	defer parent.Close()
	refuse := func(err error) int {
		parent.Refuse(plain.Text(err.Error()))
		return exit.Self
	}
	at, err := here()
	if err != nil {
		return refuse(err)
	}
	p, err := offspringPlan(from, at)
	if err != nil {
		return refuse(err)
	}
	say := &report.Reporter{To: os.Stderr, Quiet: from.Quiet, Verbose: int(from.Verbose), Began: began, Layout: p.job.Layout, Prefix: "spawned job: "}
	ran := false
	var early []wire.Fault // of ranks that ended while others were still being started
	tell := func(what any) {
		switch what := what.(type) {
		case core.Started:
			ran = true
			parent.Runs(p.job.ID)
			for _, f := range early {
				say.Event(f)
			}
		case wire.Fault:
			if !ran {
				early = append(early, what)
				return
			}
		}
		say.Event(what)
	}
	o, err := conduct(p, at, agent.RootConfig{
		Out: agent.NewSink(os.Stdout, os.Stderr, p.style(from.Label, from.Timestamp, from.Prefix, say)), Report: tell, Warn: say.Warn, Parent: parent, Offspring: from,
	})
	switch {
	case err != nil:
		return refuse(err)
	case !ran && len(o.Faults) > 0:
		parent.Refuse(say.FaultLine(o.Faults[0]))
	case !ran:
		parent.Refuse("the job was ended first")
	case o.Cause != core.CauseSignal: // that is the parent's doing, and it says why
		say.Outcome(o, 0, false)
	}
	return o.Code
}

// offspringPlan makes the plan of a spawned job from that of its parent: the
// programs and their number are new, and nobody reads standard input.
func offspringPlan(from wire.Offspring, at surroundings) (*plan, error) {
	j := *from.Job
	asker := programOf(&j, from.Spawn.Rank)
	j.Programs, j.Size, j.Stdin = nil, 0, job.Stdin{}
	j.Output = job.Output{Merge: j.Output.Merge, Unbuffered: j.Output.Unbuffered}
	j.Binding.Slots = nil // which name the parent's ranks
	j.Transport.Stats, j.Binding.Report, j.Binding.Topo = false, false, false
	j.Launch.StartBarrier = false
	j.Spawner, j.Depth, j.Preput = j.ID, j.Depth+1, slices.Collect(from.Spawn.Preput.All())
	for c := range from.Spawn.Commands.All() {
		prog := job.Program{
			First: j.Size, Count: c.Ranks, App: uint32(len(j.Programs)),
			Argv: slices.Collect(c.Argv.All()), Env: asker.Env, Drop: asker.Drop, Dir: asker.Dir,
		}
		if c.Dir != "" {
			prog.Dir = absolute(c.Dir, asker.Dir)
		}
		if slices.ContainsFunc(append(prog.Argv, prog.Dir), func(w string) bool { return strings.IndexByte(w, 0) >= 0 }) {
			return nil, fmt.Errorf("an argument contains a NUL byte")
		}
		if from.Preflight {
			if err := preflight(prog); err != nil {
				return nil, err
			}
		}
		j.Programs = append(j.Programs, prog)
		j.Size += c.Ranks
	}
	p := &plan{job: &j, here: -1, policy: core.Policy{KillOnBad: from.KillOnBad, Wait: from.Wait}, alloc: from.Alloc}
	var err error
	if p.nodes, _, err = job.Place(from.Alloc, job.Want{Ranks: uint64(j.Size), Plane: uint64(j.Layout.Plane())}); err != nil {
		return nil, err
	}
	if j.Launch.Launcher != "local" {
		p.here = thisMachine(p.nodes, at)
	}
	p.layout = p.nodes.Layout().Dealt(j.Layout.Plane())
	p.layOut(at)
	p.shape, _ = tree.Parse(from.Tree) // the parent has
	p.grow()
	return p, p.fits()
}

// programOf is the program that a seat of a job runs.
func programOf(j *job.Job, seat uint32) *job.Program {
	n := j.Layout.Rank(seat)
	for i := range j.Programs {
		if p := &j.Programs[i]; p.Has(n) {
			return p
		}
	}
	return &j.Programs[0]
}
