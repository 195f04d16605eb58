package collective

import (
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Waiting is the collective that a rank of this node waits in, by its number; 0: none.
func (c *Collectives) Waiting(rank job.Slot) (op uint32, what rankwire.Collective) {
	op = c.Joined(rank)
	g := c.open[op]
	if g == nil {
		return 0, 0
	}
	return op, g.what
}
