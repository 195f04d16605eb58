package core

import "ibrun/bootstrap/wire"

// name passes on what a rank has published or taken back: up to the root, which
// tells every agent. What is said before a barrier is known everywhere after
// it, since both go the same way.
func (c *Core) name(m wire.Name) {
	if !c.cfg.Root {
		c.send(Up, m)
		return
	}
	c.spread(m)
}

// spread takes what the root tells.
func (c *Core) spread(m wire.Name) {
	c.names = append(c.names, m)
	for i := range c.kids {
		if s := c.kids[i].state; s == kidUp || s == kidReady {
			c.send(Link(i), m)
		}
	}
	if !c.cfg.Root {
		c.do(Named{m})
	}
}

// nameAll tells a child that came up late.
func (c *Core) nameAll(l Link) {
	for _, m := range c.names {
		c.send(l, m)
	}
}
