package core

import (
	"reflect"
	"slices"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/fabric"
	"ibrun/internal/job"
)

// liar is who lies in a world: one end of a link, or a rank.
type liar struct {
	kind liarKind
	at   *member // the agent below the link, or the rank's; nil: nobody has lied yet
	rank job.Slot
	last frame.Message // that was said there in truth
}

type liarKind int

const (
	nobody liarKind = iota
	childLies
	parentLies
	rankLies
	liarKinds
)

// name is the host of an agent that may be found to lie, or to be lied to.
func (l *liar) name() string {
	if l.at == nil || l.kind == rankLies {
		return ""
	}
	return l.at.host
}

// mayAnger reports whether an agent may find that its parent lies: only who is
// lied to, or has its own words twisted.
func (l *liar) mayAnger(a *member) bool { return l.at == a && l.kind != rankLies }

// reaches reports whether an agent is below the lie.
func (l *liar) reaches(a *member) bool {
	for ; a != nil && l.at != nil && l.kind != rankLies; a = a.parent {
		if a == l.at {
			return true
		}
	}
	return false
}

// hasRank reports whether what is said about a rank may be a lie.
func (l *liar) hasRank(rank job.Slot) bool {
	switch {
	case l.at == nil:
		return false
	case l.kind == rankLies:
		return rank == l.rank
	}
	return l.at.parent.core.children[l.at.slot].hasRanks(rank, 1)
}

// lie puts a message that nobody means on the liar's link, or in the rank's mouth.
func (w *world) lie() {
	l := &w.liar
	if l.kind == nobody || len(w.agents) == 1 {
		return
	}
	if l.at == nil {
		at := w.agents[1+w.choose.Of(len(w.agents)-1)]
		if l.kind == rankLies && at.node.Ranks == 0 {
			return // its ranks have not started
		}
		l.at, l.rank = at, at.node.First
	}
	sender := []frame.Sender{childLies: frame.Child, parentLies: frame.Parent, rankLies: frame.Rank}[l.kind]
	m := w.madeUp(sender)
	bytes, ok := encode(m)
	if !ok {
		return
	}
	for w.choose.Odds(32) && len(bytes) > 5 {
		bytes[5+w.choose.Of(len(bytes)-5)] ^= 1 << w.choose.Of(8)
	}
	known := vocabularyOf(sender)
	m, err := known.Parse(bytes[4:])
	refused := err != nil || !known.Allows(m.Kind(), sender)
	if refused && !w.choose.Odds(8) {
		return // the codec's fuzzing has them
	}
	w.bytes += len(bytes)
	switch {
	case l.kind == rankLies:
		if !refused && l.at.alive[l.rank] {
			w.posted = append(w.posted, delivery{l.at, nil, RankFrame{job.Slot(l.rank), m}})
		}
	case refused: // as the reader of the link does
		w.cutOff(l.at)
	case l.at.heldUp:
	case l.kind == childLies:
		w.posted = append(w.posted, delivery{l.at.parent, l.at, Frame{l.at.slot, m}})
	default:
		w.posted = append(w.posted, delivery{l.at, l.at.parent, Frame{Up, m}})
	}
}

// encode is Append for what need not be possible.
func encode(m frame.Message) (bytes []byte, ok bool) {
	defer func() { ok = recover() == nil }()
	return frame.Append(nil, m), true
}

// vocabularyOf is what a sender speaks.
func vocabularyOf(sender frame.Sender) frame.Vocabulary {
	if sender == frame.Rank {
		return rankwire.Vocabulary
	}
	return wire.Vocabulary
}

// madeUp is the last honest message with something else in it, or one of any kind
// that the sender may send.
func (w *world) madeUp(sender frame.Sender) frame.Message {
	if m := w.liar.last; m != nil && w.choose.Odds(2) {
		v := reflect.New(reflect.TypeOf(m)).Elem()
		v.Set(reflect.ValueOf(m))
		w.twist(v)
		return v.Interface().(frame.Message)
	}
	var of []reflect.Type
	all := sayable
	if w.job.Launch.Restarts {
		all = slices.Concat(sayable, sayableOfRestarts)
	}
	for _, t := range all {
		if vocabularyOf(sender).Allows(reflect.Zero(t).Interface().(frame.Message).Kind(), sender) {
			of = append(of, t)
		}
	}
	v := reflect.New(of[w.choose.Of(len(of))]).Elem()
	w.fill(v)
	return v.Interface().(frame.Message)
}

// sayable are the messages that agents and ranks say, but Launch, and those of a job that repairs its
// tree; sayableOfRestarts are said in one that restarts ranks.
var (
	sayable = typesOf(
		wire.Ready{}, wire.Exit{}, wire.Output{}, wire.Grant{}, wire.Stdin{}, wire.StdinRoom{}, wire.Signal{}, wire.End{}, wire.Fault{}, wire.Waiting{},
		rankwire.Ask{}, rankwire.Answer{}, rankwire.Collect{}, rankwire.Release{}, wire.Blocks{}, rankwire.Tally{}, wire.Placed{}, rankwire.Name{}, rankwire.Notice{}, wire.BulkFetch{},
		wire.BulkValues{}, wire.TableFetch{}, wire.TableValues{}, wire.Times{}, wire.Steal{}, wire.Return{}, wire.Membership{}, rankwire.SpawnJob{}, rankwire.JobSpawned{},
		rankwire.Hello{}, rankwire.Publish{}, rankwire.Put{}, rankwire.Pair{}, rankwire.Abort{}, rankwire.Finalize{}, rankwire.Later{}, wire.Query{}, wire.Reply{},
		wire.Daemons{}, wire.DaemonOutput{}, wire.DaemonGrant{}, wire.DaemonsEnd{}, wire.DaemonsEnded{}, wire.CCSRequest{}, wire.CCSReply{},
		wire.DaemonInput{}, wire.DaemonRoom{}, rankwire.Follow{},
		rankwire.Resize{}, wire.Enter{}, wire.Departed{},
		wire.Session{}, wire.SessionCollect{}, wire.SessionRelease{}, wire.SessionPiece{}, wire.SessionRoom{},
	)
	sayableOfRestarts = typesOf(
		wire.Floor{}, wire.FloorSet{}, wire.Respawn{}, wire.Respawned{}, wire.Recall{}, wire.Recalled{}, wire.Rest{},
		wire.Replace{}, wire.Replaced{}, wire.Standing{}, rankwire.Failures{},
	)
)

func typesOf(messages ...frame.Message) (list []reflect.Type) {
	for _, m := range messages {
		list = append(list, reflect.TypeOf(m))
	}
	return list
}

// twist changes one field of a struct.
func (w *world) twist(v reflect.Value) {
	if v.NumField() == 0 {
		return
	}
	f := v.Field(w.choose.Of(v.NumField()))
	if f.Type() == reflect.TypeFor[*job.Job]() {
		j := *f.Interface().(*job.Job)
		f.Set(reflect.ValueOf(&j))
		w.twist(f.Elem())
		return
	}
	if f.Kind() == reflect.Struct && w.choose.Odds(2) && packed[f.Type()].slice == nil && f.Type() != reflect.TypeFor[job.Nodes]() && f.Type() != reflect.TypeFor[job.Layout]() {
		w.twist(f)
		return
	}
	if f.CanSet() {
		w.fill(f)
	}
}

// fill gives a value what could be there, and what could not.
func (w *world) fill(v reflect.Value) {
	c, size := w.choose, w.job.Size
	switch x := v.Addr().Interface().(type) {
	case *job.Nodes:
		*x = w.someNodes()
		return
	case *job.Layout:
		*x = w.someNodes().Layout().Dealt(uint32(c.Of(3)))
		return
	case *[]byte:
		*x = w.someBytes()
		return
	case **job.Tally:
		t := &job.Tally{}
		t.Sum[c.Of(int(job.Counts))], *x = job.MaxCount-uint64(c.Of(2)), t
		t.Level(c.Of(job.MaxLevels)).Asked = job.MaxCount
		return
	case *fabric.Tuple:
		*x = fabric.Tuple{Kind: fabric.Kind(c.Of(7)), Num: uint32(c.Of(256))}
		return
	case *string:
		*x = string(w.someBytes())
		return
	}
	p, isList := packed[v.Type()]
	switch {
	case isList:
		s := reflect.MakeSlice(p.slice, w.someCount(), 1<<12)
		for i := range s.Len() {
			w.fill(s.Index(i))
		}
		v.Set(p.pack(s))
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), min(w.someCount(), 5), 5))
		for i := range v.Len() {
			w.fill(v.Index(i))
		}
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			w.fill(v.Index(i))
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			w.fill(v.Field(i))
		}
	case v.Kind() == reflect.Bool:
		v.SetBool(c.Of(2) > 0)
	case v.CanUint():
		v.SetUint(uint64(w.someNumber(size)))
	case v.CanInt():
		v.SetInt([]int64{-1, 0, int64(c.Byte()), 1 << 40, 1<<63 - 1}[c.Of(5)])
	}
}

// someNumber is one that means something there, or is next to it, or is large.
func (w *world) someNumber(size uint32) uint32 {
	c := w.choose
	switch c.Of(8) {
	case 0:
		return []uint32{size, w.job.Nodes, 1 << 16, 1 << 20, 1 << 24, 1<<31 - 1, 1<<32 - 1}[c.Of(7)]
	case 1:
		return uint32(c.Of(int(size) + 1))
	case 2:
		return uint32(c.Of(3))
	}
	parent := w.liar.at.parent.core
	k, op := &parent.children[w.liar.at.slot], parent.collectives.Next(Link(w.liar.at.slot))
	known := []uint32{uint32(k.head.First), op, op + 1, w.agents[0].core.collectives.Passed, w.agents[0].core.bulk.Called, uint32(k.part.Len())}
	for _, p := range k.part {
		base, ranks := uint32(p.Nodes.Base()), p.Nodes.Ranks()
		known = append(known, uint32(p.First), uint32(p.End()), base, base+ranks-1, base+ranks, ranks, uint32(p.Nodes.Len()))
	}
	return known[c.Of(len(known))]
}

// someCount is how many elements a list has: now and then many.
func (w *world) someCount() int {
	if w.choose.Odds(32) {
		return 1 << 11
	}
	return w.choose.Of(4)
}

func (w *world) someBytes() []byte {
	l := w.job.Layout
	switch c := w.choose; c.Of(5) {
	case 0:
		return nil
	case 1:
		node := uint32(c.Of(int(l.Nodes())))
		first, count := l.SlotsOn(job.NodeIndex(node))
		b := fabric.Block{Node: node, First: uint32(first), Ranks: make([]fabric.Entry, count)}
		switch c.Of(8) {
		case 0:
			b.Node = uint32(c.Of(int(l.Nodes())))
		case 1:
			b.First++
		}
		for i := range b.Ranks {
			b.Ranks[i] = fabric.Entry{Epoch: 1 + uint16(c.Of(2)), Num: uint32(c.Byte())}
		}
		return b.Append(nil)
	case 2:
		return slices.Repeat([]byte{c.Byte()}, 1+c.Of(64))
	case 3:
		return make([]byte, wire.MaxData)
	}
	return []byte("k")
}

// someNodes are nodes of the job, under their names or others, in their place or not.
func (w *world) someNodes() job.Nodes {
	c := w.choose
	from := w.agents[0].core.recovery.Members().All.Nodes
	if part := w.liar.at.parent.core.children[w.liar.at.slot].part; len(part) > 0 && c.Of(4) > 0 {
		from = part[c.Of(len(part))].Nodes
	}
	lo := c.Of(from.Len())
	n := from.Slice(lo, lo+1+c.Of(from.Len()-lo))
	switch c.Of(4) {
	case 0:
		return n.From(job.Slot(c.Byte()))
	case 1:
		return job.NewNodes(n.Base(), []job.Run{{Prefix: "x", Width: 1, Count: uint32(1 + c.Of(4)), Ranks: uint32(1 + c.Of(4))}})
	}
	return n
}
