package alloc

import (
	"fmt"
	"strconv"
	"strings"

	"ibrun/internal/hostlist"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// repeated is a number that holds for so many hosts in a row.
type repeated struct{ value, times uint32 }

// number reads a whole number from 1 to most.
func number(text string, most uint64) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%q is not a whole number from 1 to %d", clip(text), most)
	}
	return uint32(n), nil
}

// counts reads Slurm's numbers per host: 72(x2),36.
func counts(text string) (all []repeated, err error) {
	for _, item := range strings.Split(text, ",") {
		digits, times, again := strings.Cut(item, "(x")
		c := repeated{times: 1}
		if again {
			inner, closed := strings.CutSuffix(times, ")")
			if !closed {
				return nil, fmt.Errorf("%q is not a count, as in 4(x3)", clip(item))
			}
			if c.times, err = number(inner, hostlist.MaxHosts); err != nil {
				return nil, err
			}
		}
		if c.value, err = number(digits, job.MaxRanksOnNode); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// spread returns the hosts of all, in the same order, with their slots set to the counts in of. The first count is for
// the first host. An entry is split if its hosts get different counts. If the number of counts differs from the number
// of hosts, spread returns an error.
func spread(all []hostlist.Entry, of []repeated) ([]hostlist.Entry, error) {
	hosts, total := count(all), uint64(0)
	for _, c := range of {
		total += uint64(c.times)
	}
	if total != hosts {
		return nil, fmt.Errorf("counts of %s, and the job has %d", plain.Plural(int(total), "host"), hosts)
	}
	out := make([]hostlist.Entry, 0, len(all)+len(of))
	i, left := 0, of[0].times
	for _, h := range all {
		for h.Count > 0 {
			if left == 0 {
				i++
				left = of[i].times
			}
			piece := h
			piece.Count, piece.Slots = min(h.Count, left), of[i].value
			out = append(out, piece)
			left -= piece.Count
			h.Lo, h.Count = h.Lo+uint64(piece.Count), h.Count-piece.Count
		}
	}
	return out, nil
}

// defaultSlots sets Slots to 1 in each entry whose Slots is 0. It modifies all and returns it.
func defaultSlots(all []hostlist.Entry) []hostlist.Entry {
	for i := range all {
		all[i].Slots = max(all[i].Slots, 1)
	}
	return all
}

// tally counts slots by host, for lists that name a host once for each slot, in any order.
type tally struct {
	hosts []hostlist.Entry
	at    map[string]int
}

// add increases the number of slots of the host name by slots. If the host is new, add appends it to t.hosts.
func (t *tally) add(name string, slots uint32) error {
	if t.at == nil {
		t.at = map[string]int{}
	}
	i, known := t.at[name]
	if !known {
		if err := hostlist.ValidName(name); err != nil {
			return err
		}
		if len(t.hosts) == hostlist.MaxHosts {
			return fmt.Errorf("more than %d hosts", hostlist.MaxHosts)
		}
		i = len(t.hosts)
		t.at[name] = i
		t.hosts = append(t.hosts, hostlist.Entry{Prefix: name, Count: 1})
	}
	h := &t.hosts[i]
	if uint64(h.Slots)+uint64(slots) > job.MaxRanksOnNode {
		return fmt.Errorf("more than %d slots of host %s", job.MaxRanksOnNode, name)
	}
	h.Slots += slots
	return nil
}
