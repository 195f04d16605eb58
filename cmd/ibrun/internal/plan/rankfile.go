package plan

import (
	"cmp"
	"fmt"
	"slices"

	"ibrun/cmd/ibrun/internal/alloc"
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/internal/exit"
	"ibrun/internal/hostlist"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// readRanks reads the rank file, and makes a list of its hosts, for those who name no other and
// have no allocation.
func readRanks(r *cli.Request, read readFile, allocated bool) (
	places []alloc.RankPlace, hosts cli.HostList, err error,
) {
	if r.RankFile == "" {
		return nil, r.Hosts, nil
	}
	content, err := read(r.RankFile)
	if err != nil {
		return nil, hosts, exit.Usagef("rank file %v", err)
	}
	if places, err = alloc.RankFile(r.RankFile, content); err != nil {
		return nil, hosts, exit.With(exit.Usage, err)
	}
	if r.Hosts.Named() || allocated {
		return places, r.Hosts, nil
	}
	for _, e := range places {
		if e.Host == "" {
			return nil, hosts, exit.Usagef("%s: +n%d is a host of a list: name one with --hosts", r.RankFile, e.Index)
		}
		one, err := hostlist.Inline(e.Host)
		if err != nil {
			return nil, hosts, exit.Usagef("%s: %v", r.RankFile, err)
		}
		if !slices.Contains(hosts.Entries, one[0]) {
			hosts.Entries = append(hosts.Entries, one...)
		}
	}
	return places, hosts, nil
}

// spreadRanks puts each rank where the rank file says; of more lines than ranks the first count.
func (p *Plan) spreadRanks(r *cli.Request, from allocation, ranks uint64) error {
	if ranks == 0 {
		ranks = uint64(len(from.places))
	}
	if ranks > uint64(len(from.places)) {
		return fmt.Errorf("%s names %s: write -n %d or less", r.RankFile, plain.Plural(len(from.places), "rank"),
			len(from.places))
	}
	at := make([]uint32, ranks)
	for rank, e := range from.places[:ranks] {
		i := e.Index
		if e.Host != "" {
			i = from.all.Index(e.Host)
		}
		if i < 0 || i >= from.all.Len() {
			return fmt.Errorf("%s: rank %d: no such host in the list: %s", r.RankFile, rank,
				cmp.Or(e.Host, fmt.Sprintf("+n%d", e.Index)))
		}
		at[rank] = uint32(i)
		p.slots = append(p.slots, e.Slots)
	}
	p.Nodes, p.layout = job.PlaceAt(from.all, at)
	return nil
}
