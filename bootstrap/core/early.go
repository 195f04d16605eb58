package core

import (
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
)

// tooEarly reports whether an event has to wait until it is certain who starts
// which node of this subtree: what goes through the tree on a rank's behalf.
func (c *Core) tooEarly(ev Event) bool {
	if c.stage != launching {
		return false
	}
	switch ev := ev.(type) {
	case RankFrame:
		switch m := ev.Msg.(type) {
		case rankwire.Ask:
			return !c.below.Own.Has(m.Rank)
		case rankwire.Collect, rankwire.Name, rankwire.SpawnJob, rankwire.Follow:
			return true
		}
	case BulkRequested:
		return true
	case Frame:
		switch ev.Msg.(type) {
		case rankwire.Ask, rankwire.Collect, rankwire.Name, rankwire.SpawnJob, rankwire.Follow, wire.Blocks,
			wire.BulkFetch, wire.BulkValues, wire.TableFetch, wire.TableValues:
			return ev.From != Up
		}
	}
	return false
}

// applyEarly lets happen what was too early.
func (c *Core) applyEarly() {
	if c.stage == launching || c.below.Routed() {
		return
	}
	c.below.Route(c.partsOf)
	c.input.openChildren(c)
	early := c.early
	c.early = nil
	for _, ev := range early {
		c.apply(ev)
	}
	c.doLookups(c.lookups.Launched(c.now))
}
