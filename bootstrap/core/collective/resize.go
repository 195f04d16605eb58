package collective

import "ibrun/bootstrap/core/subtree"

// Enter takes in the subtree of a child that has come to a running job: it joins the collectives
// after one.
func (c *Collectives) Enter(l subtree.Link, op uint32) { *at(&c.children, int(l)) = op }
