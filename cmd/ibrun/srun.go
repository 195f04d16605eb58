package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ibrun/internal/cmdline"
	"ibrun/internal/plural"
	"ibrun/job"
)

// srunOptions are those of srun that mean something without Slurm, or that do no harm.
var srunOptions = []knob{
	{names: "nodes", takes: value, set: func(r *request, v string) (err error) {
		r.nodes, err = nodeRange(v)
		return err
	}},
	{names: "N", takes: value, set: func(r *request, v string) (err error) {
		r.either, err = nodeRange(v)
		return err
	}},
	{names: "time", takes: value, set: func(r *request, v string) error {
		limit, err := slurmTime(v)
		if err == nil && r.timeout != 0 && r.timeout != limit {
			err = fmt.Errorf("%s contradicts --timeout", cmdline.Quote(v))
		}
		r.timeout = limit
		return err
	}},
	{names: "job-name J", takes: value, set: func(r *request, v string) error {
		if v == "" || strings.ContainsAny(v, "/\x00") {
			return fmt.Errorf("%s is no name for a job", cmdline.Quote(v))
		}
		r.jobName = v
		return nil
	}},
	{names: "multi-prog", local: true, set: on(func(r *request) *bool { return &r.now.multi })},
	{names: "mem mem-per-cpu", takes: value, set: func(_ *request, v string) error { return memorySize(v) }},
	{names: "exclusive", takes: optional, words: []string{"", "user", "mcs", "topo"}},
}

// nodeSpan is how many nodes a job is to have; most is 0 for no number.
type nodeSpan struct{ least, most uint64 }

// nodeRange reads 4 or 2-4.
func nodeRange(v string) (n nodeSpan, err error) {
	least, most, span := strings.Cut(v, "-")
	if err := count(&n.least, least, job.MaxNodes); err != nil {
		return n, err
	}
	if n.most = n.least; span {
		err = count(&n.most, most, job.MaxNodes)
	}
	if err == nil && n.most < n.least {
		err = fmt.Errorf("%s is not a range of numbers", cmdline.Quote(v))
	}
	return n, err
}

// slurmTime reads srun's ways to write a time: minutes, minutes:seconds, hours:minutes:seconds,
// days-hours, days-hours:minutes, days-hours:minutes:seconds. Without a limit it is 0.
func slurmTime(v string) (time.Duration, error) {
	switch strings.ToLower(v) {
	case "infinite", "unlimited":
		return 0, nil
	}
	days, rest, hasDays := strings.Cut(v, "-")
	units := []time.Duration{time.Hour, time.Minute, time.Second}
	if !hasDays {
		days, rest = "0", v
		switch strings.Count(v, ":") {
		case 0:
			units = units[1:2]
		case 1:
			units = units[1:]
		}
	}
	parts := append([]string{days}, strings.Split(rest, ":")...)
	units = append([]time.Duration{24 * time.Hour}, units...)
	total := time.Duration(0)
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil || i >= len(units) {
			return 0, fmt.Errorf("%s is not a time of srun's: write 10 (minutes), 1:30:00 or 1-12 (days-hours)", cmdline.Quote(v))
		}
		total += time.Duration(n) * units[i]
	}
	return total, nil
}

// memorySize checks srun's way to write memory. It is the manager's to give: here it means nothing.
func memorySize(v string) error {
	digits := strings.TrimRight(v, "KMGTkmgt")
	if !isNumber(digits) || len(v)-len(digits) > 1 {
		return fmt.Errorf("%s is not an amount of memory: write 512M or 4G", cmdline.Quote(v))
	}
	return nil
}

// chosen obeys --nodes on a list: the first nodes of it. Fewer ranks than nodes leave nodes out, as
// with srun.
func (p *plan) chosen(n nodeSpan, list job.Nodes, want *job.Want) (job.Nodes, error) {
	have := uint64(list.Len())
	if have < n.least {
		return list, fmt.Errorf("the list has %s", plural.Of(list.Len(), "host"))
	}
	use := min(have, n.most)
	switch {
	case want.Ranks == 0 && want.PerNode == 0:
		want.Ranks = use
	case want.Ranks > 0 && want.Ranks < use:
		use = want.Ranks
	}
	want.Each = true
	return list.Slice(0, int(use)), nil
}

// spreadN obeys -N, which is a number of nodes to srun and of ranks per node to mpirun: it is taken
// where only one of the two can be meant, with a word about it, or where both come to the same.
func (p *plan) spreadN(r *request, from allocation, want job.Want) (over bool, err error) {
	n := r.either.least
	nodes, over1, noNodes := p.asNodes(r, from, want)
	perNode, over2, noPerNode := p.asPerNode(r, from, want)
	switch {
	case noNodes != nil && noPerNode != nil:
		return false, fmt.Errorf("-N %d: it can be neither nodes, as in srun (%v), nor ranks per node, as in mpirun (%v)", n, noNodes, noPerNode)
	case noNodes != nil:
		p.warn(fmt.Sprintf("-N %d: %s, so it is ranks per node, as in mpirun", n, noNodes))
		nodes, over1 = perNode, over2
	case noPerNode != nil:
		p.warn(fmt.Sprintf("-N %d: %s, so it is nodes, as in srun", n, noPerNode))
	case !slices.Equal(nodes.nodes.Runs(), perNode.nodes.Runs()):
		return false, fmt.Errorf("-N %d is nodes to srun and ranks per node to mpirun, which differ here; hint: write --nodes %d or -ppn %d", n, n, n)
	}
	p.nodes, p.layout = nodes.nodes, nodes.layout
	return over1, nil
}

// asNodes is a placement with -N as srun has it, or why it cannot be that.
func (p *plan) asNodes(r *request, from allocation, want job.Want) (as plan, over bool, why error) {
	if len(from.lists) > 1 {
		return as, false, errors.New("programs have lists of their own")
	}
	list, err := p.chosen(r.either, from.lists[0], &want)
	if err != nil {
		return as, false, err
	}
	as.plane = p.plane
	over, err = as.spread(r, allocation{lists: []job.Nodes{list}}, want)
	return as, over, err
}

// asPerNode is a placement with -N as mpirun has it, or why it cannot be that.
func (p *plan) asPerNode(r *request, from allocation, want job.Want) (as plan, over bool, why error) {
	n := r.either
	switch {
	case n.most != n.least:
		return as, false, fmt.Errorf("%d-%d is a range", n.least, n.most)
	case want.PerNode != 0 && want.PerNode != n.least:
		return as, false, fmt.Errorf("%d ranks per node are asked for besides", want.PerNode)
	case want.Ranks > n.least*uint64(from.all.Len()):
		return as, false, fmt.Errorf("%s would be more than %d on each of %s", plural.Of(int(want.Ranks), "rank"), n.least, plural.Of(from.all.Len(), "node"))
	}
	want.PerNode = n.least
	as.plane = p.plane
	over, why = as.spread(r, from, want)
	return as, over, why
}
