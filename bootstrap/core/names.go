package core

import "ibrun/bootstrap/rankwire"

// nameUp passes on what a rank of the subtree wants of MPI's name service. The
// root has the names, since no rank owns them; its answer goes back to the rank.
func (c *Core) nameUp(m rankwire.Name) {
	if !c.cfg.Root {
		c.send(Up, m)
		return
	}
	c.nameAsked(0, m)
}

// served does what is wanted of the table of names, and returns the answer.
func (c *Core) served(m rankwire.Name) rankwire.Name {
	port, known := c.names[m.Service]
	switch m.Do {
	case rankwire.NamePublish:
		if c.names == nil {
			c.names = map[string]string{}
		}
		if known = !known; known {
			c.names[m.Service] = m.Port
		}
	case rankwire.NameUnpublish:
		delete(c.names, m.Service)
	case rankwire.NameLookup:
		m.Port = port
	}
	m.Done = known
	return m
}
