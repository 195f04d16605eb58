package main

import (
	"os"
	"time"

	"ibrun/bootstrap/agent"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/cmd/ibrun/internal/plan"
	"ibrun/cmd/ibrun/internal/report"
	"ibrun/cmd/ibrun/internal/run"
	"ibrun/internal/exit"
	"ibrun/internal/plain"
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
	at, err := run.Here()
	if err != nil {
		return refuse(err)
	}
	p, err := run.Prepared(plan.Spawned(from, at, run.NewIdentity()))
	if err != nil {
		return refuse(err)
	}
	say := &report.Reporter{To: os.Stderr, Quiet: from.Quiet, Verbose: int(from.Verbose), Began: began,
		Layout: p.Job.Layout, Prefix: "spawned job: "}
	ran := false
	var early []wire.Fault // of ranks that ended while others were still being started
	tell := func(what any) {
		switch what := what.(type) {
		case core.LaunchDone:
			ran = true
			parent.Runs(p.Job)
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
	o, err := run.Job(p, at, agent.RootConfig{
		Out:    agent.NewSink(os.Stdout, os.Stderr, style(p, from.Label, from.Timestamp, from.Prefix, say)),
		Report: tell, Warn: say.Warn, Parent: parent, Offspring: from,
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
