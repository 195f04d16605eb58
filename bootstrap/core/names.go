package core

import "ibrun/bootstrap/wire"

// nameUp passes on what a rank of the subtree wants of MPI's name service. The
// root has the names, since no rank owns them; its answer goes back to the rank.
func (c *Core) nameUp(m wire.Name) {
	if !c.cfg.Root {
		c.send(Up, m)
		return
	}
	port, known := c.names[m.Service]
	switch m.Do {
	case wire.NamePublish:
		if c.names == nil {
			c.names = map[string]string{}
		}
		if known = !known; known {
			c.names[m.Service] = m.Port
		}
	case wire.NameUnpublish:
		delete(c.names, m.Service)
	case wire.NameLookup:
		m.Port = port
	}
	m.Done = known
	c.nameDown(m)
}

// nameDown brings the answer to the rank.
func (c *Core) nameDown(m wire.Name) {
	if c.job == nil {
		return
	}
	if c.ranks.has(m.Rank) {
		c.do(Tell{m.Rank, m})
		return
	}
	if to, gone := c.towards(m.Rank); to != Up && gone == wire.Found {
		c.send(to, m)
	}
}
