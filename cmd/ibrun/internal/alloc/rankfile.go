package alloc

import (
	"fmt"
	"strconv"
	"strings"

	"ibrun/topo/bind"
)

// MaxFileRanks is the maximum number of ranks in a rank file. Ranks are numbered from 0 to MaxFileRanks-1.
const MaxFileRanks = 1 << 20

// RankPlace represents the host and the cores that a rank file assigns to one rank.
type RankPlace struct {
	Host  string // name of the host; if Host is empty, Index selects the host
	Index int    // position of the host in the list of hosts, from 0 ("+nINDEX" in the file)
	Slots string // the cores, in the form of bind.ParseSlots
}

// RankFile parses the content of the rank file with the given name, and returns the place of each rank, indexed by
// rank. A line has the form "rank 2=host slot=0:1-3", and # begins a comment. The lines can be in any order. Each rank
// from 0 to the highest must have exactly one line. Errors about a line begin with the name and the number of the line.
func RankFile(name string, content []byte) ([]RankPlace, error) {
	lines := map[int]RankPlace{}
	most := -1
	for i, line := range strings.Split(string(content), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		rank, e, err := entry(line)
		if _, twice := lines[rank]; err == nil && twice {
			err = fmt.Errorf("rank %d has two lines", rank)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		lines[rank] = e
		most = max(most, rank)
	}
	if most < 0 {
		return nil, fmt.Errorf("%s: no rank in it", name)
	}
	all := make([]RankPlace, len(lines))
	for rank := range all {
		e, ok := lines[rank]
		if !ok {
			return nil, fmt.Errorf("%s: rank %d is missing, and there is a rank %d", name, rank, most)
		}
		all[rank] = e
	}
	return all, nil
}

// entry parses a line of a rank file. The caller has removed comments and empty lines.
func entry(line string) (rank int, e RankPlace, err error) {
	const form = "write rank 0=host slot=0:1"
	rest, ok := strings.CutPrefix(line, "rank")
	number, rest, has := strings.Cut(rest, "=")
	if !ok || !has {
		return 0, e, fmt.Errorf("invalid line %q: %s", line, form)
	}
	if rank, err = strconv.Atoi(strings.TrimSpace(number)); err != nil || rank < 0 || rank >= MaxFileRanks {
		return 0, e, fmt.Errorf("invalid rank %q: %s", strings.TrimSpace(number), form)
	}
	host, slots, has := strings.Cut(rest, "slot")
	slots, equals := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(slots, "s")), "=")
	e.Host, e.Slots = strings.TrimSpace(host), strings.ReplaceAll(strings.TrimSpace(slots), " ", "")
	if e.Host == "" || !has || !equals {
		return 0, e, fmt.Errorf("invalid line %q: %s", line, form)
	}
	if index, relative := strings.CutPrefix(e.Host, "+n"); relative {
		if e.Index, err = strconv.Atoi(index); err != nil || e.Index < 0 {
			return 0, e, fmt.Errorf("no such host %q in the list: write +n0 for the first", e.Host)
		}
		e.Host = ""
	}
	_, err = bind.ParseSlots(e.Slots)
	return rank, e, err
}
