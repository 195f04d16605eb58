package sim

import (
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
)

// joinChild lets a session come to the node of an agent that has lost its parent, which takes it
// as a new link. An agent that is stopped does not answer in time.
func (w *World) joinChild(a *agent, e core.JoinChild) {
	takes, comes := w.session(a.host, core.StartChild{Node: e.Node, Local: e.Local, Most: e.Most})
	k := w.agents[uint32(e.Key)]
	if k != nil && (w.isCut(k) || k.frozen > w.now+takes) {
		takes, comes = e.Most, false
	}
	if a.joining == nil {
		a.joining = map[core.Link]bool{}
	}
	a.joining[e.Child] = true
	w.At(w.now+takes, func() {
		if a.dead || a.done || !a.joining[e.Child] {
			return
		}
		delete(a.joining, e.Child)
		switch {
		case !comes:
			w.deliver(event{to: a, ev: core.ChildFailed{Child: e.Child, Phase: "connect", Cause: "no answer"}})
		case k == nil || k.dead || k.done:
			w.deliver(event{to: a, ev: core.ChildFailed{Child: e.Child, Phase: "join", Cause: "its agent is gone"}})
		case !recovery.MayJoin(k.level, e.Level):
			w.deliver(event{to: a, ev: core.JoinRefused{Child: e.Child}})
		default:
			w.EndSession(k.node)
			k.parent, k.slot, k.level = a, e.Child, e.Level
			k.links++
			if a.children == nil {
				a.children, a.index = map[core.Link]*agent{}, map[core.Link]uint32{}
			}
			a.children[e.Child], a.index[e.Child] = k, k.node
			w.deliver(event{to: k, ev: core.Relinked{Level: e.Level}})
			w.deliver(event{to: a, ev: core.ChildUp{Child: e.Child}})
		}
	})
}

// EndSession ends the link above the agent of a node, as the death of an ssh client does.
func (w *World) EndSession(node uint32) {
	k := w.agents[node]
	if k == nil || k.dead || k.done || k.parent == nil {
		return
	}
	if p := k.parent; p.children[k.slot] == k {
		if at, comes := w.arrival(k, true); comes {
			w.push(event{at: at, to: p, ev: core.LinkLost{Link: k.slot, Cause: "the session ended"}})
		}
		w.orphan(k)
		delete(p.children, k.slot)
	}
	k.parent = nil
}

// startLevel notes the level of the parent that an agent begins with.
func startLevel(k *agent, m wire.Launch) { k.level = m.Level - 1 }
