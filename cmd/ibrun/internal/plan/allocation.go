package plan

import (
	"slices"

	"ibrun/cmd/ibrun/internal/alloc"
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/internal/exit"
	"ibrun/internal/hostlist"
	"ibrun/internal/job"
)

// readHosts reads the files and joins what names the same host.
func readHosts(h cli.HostList, read readFile) (job.Nodes, error) {
	entries := slices.Clone(h.Entries)
	for _, name := range h.Files {
		content, err := read(name)
		if err != nil {
			return job.Nodes{}, exit.Usagef("host file %v", err)
		}
		more, err := hostlist.File(name, content)
		if err != nil {
			return job.Nodes{}, exit.With(exit.Usage, err)
		}
		entries = append(entries, more...)
	}
	var runs []job.Run
	total := uint64(0)
	for _, e := range entries {
		total += uint64(e.Count)
		runs = append(runs, runOf(e))
	}
	if total > job.MaxNodes {
		return job.Nodes{}, exit.Usagef("%d hosts: at most %d are possible", total, job.MaxNodes)
	}
	return job.NewNodes(0, runs).Unique(), nil
}

// runOf is an entry of a host list as a run of nodes.
func runOf(e hostlist.Entry) job.Run {
	return job.Run{Prefix: e.Prefix, Suffix: e.Suffix, Width: uint8(e.Width), Lo: e.Lo, Count: e.Count,
		User: e.User, HCA: e.HCA, Slots: e.Slots}
}

// allocation represents the nodes on which ranks can be placed.
type allocation struct {
	lists []job.Nodes       // one for all programs, or one for each
	all   job.Nodes         // each host once
	local bool              // only this machine, because neither the user nor a resource manager named hosts
	given *alloc.Allocation // allocation in which ibrun runs; nil if there is none or it is ignored

	places []alloc.RankPlace // hosts and cores from the file of --rankfile, indexed by rank; nil without --rankfile
}

// allocate reads the hosts of a request, or those of the allocation that ibrun runs in.
func allocate(r *cli.Request, at Surroundings) (from allocation, err error) {
	if from.given, err = given(r, at); err != nil {
		return from, err
	}
	lists := []cli.HostList{r.Hosts}
	if from.places, lists[0], err = readRanks(r, at.Read, from.given != nil); err != nil {
		return from, err
	}
	if !lists[0].Named() && r.Everywhere().Named() {
		lists = nil
		for _, s := range r.Segments {
			lists = append(lists, s.Hosts)
		}
	}
	switch {
	case lists[0].Named():
		for _, list := range lists {
			n, err := readHosts(list, at.Read)
			if err != nil {
				return from, err
			}
			from.lists = append(from.lists, n)
		}
	case from.given != nil:
		from.lists = []job.Nodes{nodesOf(from.given)}
	default:
		from.local = true
		from.lists = []job.Nodes{job.NewNodes(0, []job.Run{{Prefix: at.Host, Count: 1}})}
	}
	from.all = job.Union(from.lists)
	if lists[0].Named() && from.given != nil && from.given.Confines {
		err = inside(from.given, from.all)
	}
	return from, err
}
