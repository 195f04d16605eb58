package plan

import (
	"fmt"
	"slices"
	"strings"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/internal/job"
)

// Offspring is what jobs that ranks spawn take over of the command line.
func Offspring(r *cli.Request) wire.Offspring {
	return wire.Offspring{Tree: r.Tree, Preflight: r.Preflight, Label: r.Label, Prefix: r.Prefix,
		Timestamp: r.Timestamp, Quiet: r.Quiet, Verbose: uint32(r.Verbose)}
}

// Spawned makes the plan of a spawned job from that of its parent: the programs and their
// number are new, and nobody reads standard input.
func Spawned(from wire.Offspring, at Surroundings, id Identity) (*Plan, error) {
	parent := from.Job
	programs, size, err := offspringPrograms(from)
	if err != nil {
		return nil, err
	}
	p := &Plan{Here: -1, Policy: core.Policy{KillOnBad: from.KillOnBad, Wait: from.Wait}, Alloc: from.Alloc,
		Preflight: from.Preflight}
	plane := parent.Layout.Plane()
	if p.Nodes, _, err = job.Place(from.Alloc, job.Want{Ranks: uint64(size), Plane: uint64(plane)}); err != nil {
		return nil, err
	}
	if parent.Launch.Launcher != "local" {
		p.Here = thisMachine(p.Nodes, at)
	}
	p.layout = p.Nodes.Layout().Dealt(plane)
	p.Shape, _ = tree.Parse(from.Tree) // the parent has
	draft := inherited(parent)
	draft.Programs, draft.Preput = programs, slices.Collect(from.Spawn.Preput.All())
	return p, p.complete(draft, at, id)
}

// inherited is what a spawned job has of the job whose rank spawns it: all but what names the
// parent's ranks and nodes, and what the user wants to see of the parent.
func inherited(parent *job.Job) job.Job {
	child := *parent
	child.Stdin = job.Stdin{}
	child.Output = job.Output{Merge: parent.Output.Merge, Unbuffered: parent.Output.Unbuffered}
	child.Binding.Slots, child.Binding.Report, child.Binding.Topo = nil, false, false
	child.Transport.Stats = false
	child.Launch.StartBarrier, child.Launch.TraceEvents = false, ""
	child.Spawner, child.Depth = parent.ID, parent.Depth+1
	return child
}

// offspringPrograms are the programs of a spawned job, and the number of its ranks. They have the
// environment of the rank that spawns them.
func offspringPrograms(from wire.Offspring) (programs []job.Program, size uint32, err error) {
	requester := programOf(from.Job, from.Spawn.Rank)
	for c := range from.Spawn.Commands.All() {
		prog := job.Program{
			First: job.Rank(size), Count: c.Ranks, App: uint32(len(programs)),
			Argv: slices.Collect(c.Argv.All()), Env: slices.AppendSeq(slices.Clip(requester.Env), c.Env.All()),
			Drop: requester.Drop, Dir: absolute(c.Dir, requester.Dir),
		}
		if slices.ContainsFunc(slices.Concat(prog.Argv, prog.Env, []string{prog.Dir}),
			func(w string) bool { return strings.IndexByte(w, 0) >= 0 }) {
			return nil, 0, fmt.Errorf("an argument contains a NUL byte")
		}
		programs = append(programs, prog)
		size += c.Ranks
	}
	return programs, size, nil
}

// programOf is the program that a slot of a job runs.
func programOf(j *job.Job, slot job.Slot) *job.Program {
	n := j.Layout.Rank(slot)
	for i := range j.Programs {
		if p := &j.Programs[i]; p.Has(n) {
			return p
		}
	}
	return &j.Programs[0]
}
