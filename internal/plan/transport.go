package plan

import (
	"cmp"
	"fmt"

	"ibrun/internal/options"
	"ibrun/job"
)

// eagerNodes is the number of nodes up to which --lazy=auto sends the whole
// table: there a program that needs all of it is served better, and one that
// needs little loses little (docs/decisions/0005-when-eager.md has the
// measurement).
const eagerNodes = 16

// transport decides how ranks find each other.
func transport(r *options.Request, nodes int) job.Transport {
	t := job.Transport{
		Fabric: cmp.Or(r.Fabric, "auto"), Iface: r.Iface, Stats: r.Stats != "", Verbose: r.Verbose > 0,
		SL: r.SL, PKey: r.PKey, GID: r.GID, Spin: r.Spin,
	}
	switch {
	case r.Eager || r.Lazy == "off":
		t.Eager, t.Why = true, "as asked for"
	case r.Lazy == "on":
		t.Why = "as asked for"
	case nodes == 1:
		t.Why = "one node, so there is nothing to look up"
	case nodes <= eagerNodes:
		t.Eager, t.Why = true, fmt.Sprintf("%d nodes: up to %d, the whole table is cheaper than look-ups", nodes,
			eagerNodes)
	default:
		t.Learn, t.Why = true, fmt.Sprintf("%d nodes: above %d, look-ups are cheaper than the whole table", nodes,
			eagerNodes)
	}
	return t
}
