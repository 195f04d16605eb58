package pmixserver

import (
	"slices"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// spawning is a Spawn: the root answers by rank only, so a rank has one under way at a time.
type spawning struct {
	waiter
	what  rankwire.SpawnJob
	ranks uint32
	apps  uint32
}

// spawn asks for further programs. Of the preferences only the working directory is known.
func (s *Server) spawn(w waiter, q pmix.Spawn) {
	one := spawning{waiter: w}
	var commands []rankwire.Command
	for app := range q.Apps.All() {
		argv := texts(app.Argv)
		if len(argv) == 0 {
			argv = []string{app.Command}
		}
		argv[0] = app.Command
		dir := app.Dir
		for a := range app.Attrs.All() {
			if text, ok := a.Value.Text(); ok && a.Key == "pmix.wdir" {
				dir = text
			}
		}
		n := uint32(min(max(app.Ranks, 0), job.MaxRanks))
		commands = append(commands, rankwire.Command{
			Argv: rankwire.NewStrings(argv...), Env: rankwire.NewStrings(texts(app.Env)...), Ranks: n, Dir: dir,
		})
		one.ranks, one.apps = one.ranks+n, one.apps+1
	}
	r := w.rank
	one.what = rankwire.SpawnJob{
		Commands: rankwire.NewCommands(commands...), Preput: rankwire.NewPairs(parentPair(s.namespace, r)),
	}
	r.waiting++
	if r.spawns = append(r.spawns, one); len(r.spawns) == 1 {
		s.send(r, one.what)
	}
}

func texts(l pmix.List[pmix.Text]) (all []string) {
	for t := range l.All() {
		all = append(all, string(t))
	}
	return all
}

// spawned answers the oldest Spawn of a rank, and asks for the next.
func (s *Server) spawned(r *rank, m rankwire.JobSpawned) {
	if len(r.spawns) == 0 {
		return
	}
	one := r.spawns[0]
	r.spawns = slices.Delete(r.spawns, 0, 1)
	r.waiting--
	if m.Refused != "" { // the protocol has no room for it
		s.warn("rank %d: nothing was spawned: %s", r.number, m.Refused)
		s.status(one.waiter, pmix.LaunchFailed)
	} else {
		s.answer(one.waiter, pmix.Answer{Body: &pmix.Job{
			Namespace: m.Namespace, ID: m.JobID, Size: one.ranks, Universe: one.ranks, Apps: one.apps,
			Parent: &pmix.Proc{Namespace: s.namespace, Rank: pmix.Rank(r.number)},
		}})
	}
	if len(r.spawns) > 0 {
		s.send(r, r.spawns[0].what)
	}
}
