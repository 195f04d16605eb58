package plan

import (
	"errors"
	"fmt"
	"time"

	"ibrun/cmd/ibrun/internal/alloc"
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/internal/exit"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// ErrNotFirst is the error for a process that shall do nothing: a resource manager has started the
// same command several times as one step, and another process of it runs the job.
var ErrNotFirst = errors.New("another process of the same step runs the job")

// given is the allocation that ibrun runs in, or nil. Those who name hosts do without a list that
// the manager does not tell.
func given(r *cli.Request, at Surroundings) (*alloc.Allocation, error) {
	if r.Launch.Launcher == "local" || r.Manager == "user" || r.Manager == "none" {
		return nil, nil
	}
	a, err := alloc.Read(alloc.Process{Env: at.Env, Host: at.Host, Read: at.Read, Ask: at.Ask}, r.Manager)
	switch {
	case errors.Is(err, alloc.ErrNoList) && r.Everywhere().Named():
		return nil, nil
	case err != nil:
		return nil, err
	case a == nil && r.Manager != "" && !r.Everywhere().Named():
		return nil, exit.Usagef("-rmk %s: none of the variables that it sets in its jobs is there; hint: name the "+
			"hosts with --hosts, or leave -rmk out", r.Manager)
	case a != nil && a.Task > 0:
		return nil, exit.With(0, ErrNotFirst)
	}
	return a, nil
}

// nodesOf are the hosts of an allocation, each once.
func nodesOf(a *alloc.Allocation) job.Nodes {
	runs := make([]job.Run, 0, len(a.Hosts))
	for _, h := range a.Hosts {
		runs = append(runs, runOf(h))
	}
	return job.NewNodes(0, runs).Unique()
}

// inside refuses hosts that the job of a resource manager does not have. Names are compared without
// their domain if one of them has none. The names of the loopback are this machine wherever it is.
func inside(a *alloc.Allocation, named job.Nodes) error {
	known := map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}
	short := map[string]bool{}
	for r := range nodesOf(a).All() {
		for i := range r.Count {
			host := r.Host(i)
			known[host], known[shortName(host)] = true, true
			if shortName(host) == host {
				short[host] = true
			}
		}
	}
	outside := named.Without(func(host string) bool { return known[host] || short[shortName(host)] })
	if outside.Len() == 0 {
		return nil
	}
	more := ""
	if n := outside.Len() - 1; n > 0 {
		more = fmt.Sprintf(" (nor are %d others)", n)
	}
	return exit.Usagef("%s is not a host of %s, by %s%s; hint: --no-allocation starts ranks there all the same",
		outside.At(0).Host, nameOf(a), a.Source, more)
}

// nameOf is the job of a resource manager in words.
func nameOf(a *alloc.Allocation) string {
	switch {
	case !a.Confines:
		return "the host file for " + a.Manager
	case a.ID == "":
		return "the job of " + a.Manager
	}
	return a.Manager + " job " + plain.Text(a.ID)
}

// explain notes for the user what the plan takes from an allocation, and warns if the manager
// started ibrun several times.
func (p *Plan) explain(from allocation, r *cli.Request, at Surroundings, why string) {
	a := from.given
	if a == nil {
		return
	}
	nodes := nodesOf(a)
	p.Origin = fmt.Sprintf("%s: %s with %s (%s)", nameOf(a), plain.Plural(nodes.Len(), "node"),
		plain.Plural(int(nodes.Slots()), "slot"), a.Source)
	if !a.End.IsZero() {
		p.Origin += fmt.Sprintf(", until %s UTC (%v left)", a.End.Format(time.DateTime), left(a, at))
	}
	if r.Everywhere().Named() {
		p.Origin += "; the hosts that you name count"
	}
	if why != "" {
		p.Origin += "; " + why
	}
	if a.Tasks > 1 {
		p.Warn(fmt.Sprintf("%s has started this command %d times: the first runs the job, the others end at once; "+
			"hint: write ibrun without the manager's starter", nameOf(a), a.Tasks))
	}
}
