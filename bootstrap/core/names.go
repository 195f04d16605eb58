package core

import "ibrun/bootstrap/wire"

// nameUp passes on what a rank of the subtree wants of MPI's name service. The
// root has the names, since no rank owns them; its answer goes back to the rank.
func (c *Core) nameUp(m wire.Name) {
	if !c.cfg.Root {
		c.send(Up, m)
		return
	}
	c.nameAsked(0, m)
}

// served does what is wanted of the table of names, and returns the answer.
func (c *Core) served(m wire.Name) wire.Name {
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
	return m
}
