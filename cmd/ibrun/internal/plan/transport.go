package plan

import (
	"cmp"

	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/internal/job"
)

// transport decides how ranks of a job of some size find each other. What --lazy=auto leaves open
// is decided by what is measured (docs/dev/decisions/0031-measured-choices.md).
func transport(r *cli.Request, nodes, ranks uint32) job.Transport {
	t := job.Transport{
		Fabric: cmp.Or(r.Fabric, "auto"), Iface: r.Iface, Stats: r.Stats != "", Verbose: r.Verbose > 0,
		SL: r.SL, PKey: r.PKey, GID: r.GID, Poll: r.Poll,
	}
	switch {
	case r.Eager || r.Lazy == "off":
		t.Eager, t.Why = true, "as asked for"
	case r.Lazy == "on":
		t.Why = "as asked for"
	case nodes == 1:
		t.Why = "one node, so there is nothing to look up"
	case job.Enough(1, job.TableBytes(nodes, ranks)):
		t.Eager, t.Learn, t.Why = true, true, "the whole table costs no more than a look-up: it comes besides"
	default:
		t.Learn, t.Why = true, "the whole table comes when a node has looked up enough"
	}
	return t
}
