package pmixserver

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"strings"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
)

const (
	keyGroupInfo    = "pmix.grp.info"   // what a member has for the others
	keyGroupContext = "pmix.grp.ctxid"  // the number of a group
	keyQualified    = "pmix.qual.value" // a value with the attributes that tell it from others of its key
)

// groups are what members of groups have for each other, as long as a program of the node runs. MPI
// libraries end a group when they have its number, and ask for values later, when they need them.
type groups struct {
	byContext map[uint64]*group
	order     []uint64 // contexts, the oldest first
	ended     int      // of these, that all members of the node have ended
	bytes     int
}

// group represents a PMIx group whose members exchange attributes.
type group struct {
	name   string
	values frame.Encoder // for each member that has attributes: its slot, and then its encoded attributes
	left   int           // members of this node that have not destructed the group
}

// maxGroups is how many bytes a node keeps of groups that have ended, together with those that have
// not: the oldest ones go. That is 20,000 groups of four members with what Open MPI 5 has for each.
const maxGroups = 4 << 20

// sizeOfGroup is about what a group takes besides name and values, in bytes.
const sizeOfGroup = 128

func (g *group) size() int { return len(g.name) + len(g.values) + sizeOfGroup }

// construct makes a group. Each member learns what the others have for it.
func (s *Server) construct(w waiter, q pmix.GroupConstruct) {
	var own []pmix.Attr
	for a := range q.Attrs.All() {
		if a.Key == keyGroupInfo {
			own = append(own, a)
		}
	}
	var shared []byte
	if len(own) > 0 {
		shared = binary.BigEndian.AppendUint32([]byte{holdsGroup}, uint32(w.rank.slot))
		shared = pmix.AttrsValue(own...).Append(shared)
	}
	s.meet(w, q.Members, purpose{what: "group " + q.Name, timeout: q.Timeout, shared: shared,
		body: func(m *meeting) pmix.Body {
			return pmix.Group{
				Members: q.Members, Context: m.context(), HasContext: q.Context, Attrs: s.grouped(m, q.Name),
			}
		},
	})
}

// grouped keeps what the members of a group have for each other, and lists it.
func (s *Server) grouped(m *meeting, name string) pmix.List[pmix.Attr] {
	g := &group{name: strings.Clone(name), left: len(m.waiting)}
	context := m.context()
	known := s.byContext[context] != nil // by the member before
	var all []pmix.Attr
	for _, b := range m.shared {
		if len(b) < 5 || b[0] != holdsGroup {
			continue
		}
		v, _ := pmix.ParseValue(b[5:]) // what is none has no attributes
		list, _ := v.Attrs()
		all = slices.AppendSeq(all, list.All())
		if !known {
			g.values.U32(binary.BigEndian.Uint32(b[1:]))
			g.values.Bytes(b[5:])
		}
	}
	if len(g.values) > 0 {
		s.keepGroup(context, g)
	}
	return pmix.ListOf(all...)
}

// keepGroup keeps a group in place of old ones that have ended.
func (s *Server) keepGroup(context uint64, g *group) {
	g.values = slices.Clip(g.values)
	s.byContext[context], s.groups.order = g, append(s.groups.order, context)
	s.groups.bytes += g.size()
	if s.groups.bytes <= maxGroups || s.groups.ended == 0 {
		return
	}
	s.groups.order = slices.DeleteFunc(s.groups.order, func(context uint64) bool {
		g := s.byContext[context]
		if g.left > 0 || s.groups.bytes <= maxGroups*3/4 { // so that the next one need not look again
			return false
		}
		s.groups.bytes -= g.size()
		s.groups.ended--
		delete(s.byContext, context)
		return true
	})
}

// valuesOf yields what a member had for the others.
func (g *group) valuesOf(slot job.Slot) iter.Seq[pmix.Attr] {
	return func(yield func(pmix.Attr) bool) {
		for r := frame.NewDecoder(g.values, math.MaxInt); len(r.Rest()) > 0; {
			of, value := job.Slot(r.U32()), r.Bytes()
			if of != slot {
				continue
			}
			v, _ := pmix.ParseValue(value)
			list, _ := v.Attrs()
			for a := range list.All() {
				inner, _ := a.Value.Attrs()
				for one := range inner.All() {
					if !yield(one) {
						return
					}
				}
			}
		}
	}
}

// ofGroup answers a Get of what a member of a group had for the others.
func (s *Server) ofGroup(q pmix.Get, slot job.Slot) (pmix.Pairs, bool) {
	for a := range q.Attrs.All() {
		number, ok := a.Value.Number()
		g := s.byContext[uint64(number)]
		if a.Key != keyGroupContext || !ok || g == nil {
			continue
		}
		for one := range g.valuesOf(slot) {
			if one.Key == q.Key {
				return pmix.PairsOf(pmix.Attr{Key: keyQualified, Value: pmix.AttrsValue(one, a)}), true
			}
		}
	}
	return pmix.Pairs{}, false
}

// destruct ends a group. Its members need not wait for each other: its number does not come again.
func (s *Server) destruct(w waiter, q pmix.GroupDestruct) {
	for _, context := range slices.Backward(s.groups.order) {
		if g := s.byContext[context]; g.name == q.Name && g.left > 0 {
			if g.left--; g.left == 0 {
				s.groups.ended++
			}
			break
		}
	}
	s.status(w, pmix.Done)
}
