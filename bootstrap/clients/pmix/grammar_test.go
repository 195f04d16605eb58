package pmix

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"ibrun/test/fields"
)

// shown is what a value has in it.
type shown struct {
	Type    Type
	Content string
}

// show is the view of what shares the bytes of a message.
func show(v any) any {
	switch v := v.(type) {
	case List[Text]:
		return items(v)
	case List[Status]:
		return items(v)
	case List[Proc]:
		return items(v)
	case List[Attr]:
		return items(v)
	case List[App]:
		return items(v)
	case List[Question]:
		return items(v)
	case Value:
		return shown{v.Type, string(v.content)}
	}
	return nil
}

func items[T item[T]](l List[T]) []T { return slices.Collect(l.All()) }

// top writes items at the top level, as clients do.
type top struct{ *writer }

func (w top) octet(n byte)    { w.count(1); w.writer.octet(n) }
func (w top) u32(n uint32)    { w.count(1); w.writer.u32(n) }
func (w top) u64(n uint64)    { w.count(1); w.writer.u64(n) }
func (w top) text(s string)   { w.count(1); w.writer.text(s) }
func (w top) status(s Status) { w.count(1); w.writer.status(s) }
func (w top) procs()          { writeTop(w.writer, someProcs) }
func (w top) keys(keys ...string) {
	w.count(1)
	w.size(uint64(len(keys)))
	for _, key := range keys {
		w.text(key)
	}
}

// sayings has each command that becomes a request, with all of its fields.
var sayings = map[command]func(w top){
	cmdJob: func(top) {},
	cmdAbort: func(w top) {
		w.status(7)
		w.text("why")
		w.procs()
	},
	cmdCommit: func(w top) {
		for i, scope := range []Scope{ScopeLocal, ScopeRemote} {
			w.octet(byte(scope))
			pairs := writer{enc: w.enc}
			pairs.pair(fmt.Sprint("key", i), Uint32Value(7))
			w.count(1)
			w.writer.octet(bufferPlain)
			w.bytes(pairs.b)
		}
	},
	cmdFence: func(w top) { w.procs(); w.attrs("pmix.collect", keyTimeout) },
	cmdGet: func(w top) {
		w.text("ns")
		w.u32(3)
		w.attrs(keyImmediate, keyTimeout)
		w.text("key")
	},
	cmdFinalize: func(top) {},
	cmdPublish: func(w top) {
		w.u32(1000)
		w.attrs("service", keyRange, keyPersistence)
	},
	cmdLookup: func(w top) {
		w.u32(1000)
		w.keys("a", "b")
		w.attrs(keyRange, keyWait, keyTimeout)
	},
	cmdUnpublish: func(w top) {
		w.u32(1000)
		w.keys("a")
		w.attrs(keyRange)
	},
	cmdSpawn: func(w top) {
		w.attrs("pmix.mapby")
		writeTop(w.writer, ListOf(app))
	},
	cmdConnect:    func(w top) { w.procs(); w.attrs(keyTimeout) },
	cmdDisconnect: func(w top) { w.procs(); w.attrs(keyTimeout) },
	cmdNotify: func(w top) {
		w.status(Aborted)
		w.octet(byte(RangeNamespace))
		w.attrs("pmix.evproc")
	},
	cmdQuery: func(w top) { writeTop(w.writer, ListOf(question)) },
	cmdLog: func(w top) {
		w.u64(5)
		w.attrs(keyLogStderr, keyLogStdout)
		w.attrs("pmix.log.agg")
	},
	cmdJobControl: func(w top) {
		w.procs()
		w.attrs(keyCleanup, keyCleanupDir, keyCleanupIgnore, keyCleanupRecurse, keyCleanupEmpty, keyCleanupKeepTop)
	},
	cmdGroupConstruct: func(w top) {
		w.text("group")
		w.procs()
		w.attrs(keyAssignContext, keyTimeout)
	},
	cmdGroupDestruct: func(w top) {
		w.text("group")
		w.attrs(keyTimeout)
	},
}

// attrs writes attributes of some keys.
func (w top) attrs(keys ...string) { writeTop(w.writer, attrsOf(keys...)) }

func attrsOf(keys ...string) List[Attr] {
	var attrs []Attr
	for _, key := range keys {
		v := BoolValue(true)
		switch key {
		case keyCleanup, keyCleanupDir, keyCleanupIgnore:
			v = TextValue("/a,/b")
		case keyLogStderr, keyLogStdout:
			v = TextValue("a line")
		case keyTimeout:
			v = IntValue(3)
		case keyRange:
			v = Value{Type: TypeRange, content: []byte{byte(RangeGlobal)}}
		case keyPersistence:
			v = Value{Type: TypePersistence, content: []byte{byte(PersistFirstRead)}}
		}
		attrs = append(attrs, Attr{key, 1, v})
	}
	return ListOf(attrs...)
}

var someProcs = ListOf(Proc{"ns", 3}, Proc{"other", RankWildcard})

// wanted are the requests of some commands in sayings.
var wanted = map[command]Request{
	cmdAbort:     Abort{7, "why"},
	cmdFence:     Fence{someProcs, 3 * time.Second},
	cmdGet:       Get{Proc{"ns", 3}, "key", attrsOf(keyImmediate, keyTimeout), true, 3 * time.Second},
	cmdPublish:   Publish{attrsOf("service", keyRange, keyPersistence), RangeGlobal, PersistFirstRead},
	cmdLookup:    Lookup{ListOf[Text]("a", "b"), RangeGlobal, true, 3 * time.Second},
	cmdUnpublish: Unpublish{ListOf[Text]("a"), RangeGlobal},
	cmdSpawn:     Spawn{ListOf(app)},
	cmdConnect:   Connect{someProcs, 3 * time.Second},
	cmdNotify:    Notify{Aborted, RangeNamespace, attrsOf("pmix.evproc")},
}

// TestRequests: each command has a request whose fields are all read, in both encodings, whatever
// fields a newer client adds behind them.
func TestRequests(t *testing.T) {
	var all []any
	for c, row := range grammar {
		fill := sayings[c]
		if c == cmdRegisterEvents || c == cmdDeregisterEvents {
			require.Nil(t, fill)
			continue // TestScenarioEvents
		}
		require.NotNil(t, fill, row.name)
		var first []Request
		for _, dialect := range []string{"v41", "v3"} {
			p := newPeer(t, "4.2.2", dialect)
			steps := p.send(c, func(w *writer) {
				fill(top{w})
				if c != cmdGet && c != cmdCommit { // whose last field may be missing, or come again
					w.b = append(w.b, 0, 1, 2)
				}
			})
			last := steps[len(steps)-1]
			require.NotNil(t, last.Request, "%s: %v", row.name, last)
			all = append(all, last.Request)
			first = append(first, last.Request)
		}
		require.Empty(t, cmp.Diff(first[0], first[1], contents), row.name)
		if want := wanted[c]; want != nil {
			require.Empty(t, cmp.Diff(want, first[0], contents), row.name)
		}
	}
	all = append(all, usual("4.2.2", "v41").client)
	zero := fields.Zero(show, all...)
	zero = slices.DeleteFunc(zero, func(path string) bool { return strings.HasSuffix(path, "Flags") })
	require.Empty(t, zero)

	publish := all[slices.IndexFunc(all, func(q any) bool { _, is := q.(Publish); return is })].(Publish)
	require.Equal(t, []string{"service"}, slices.Collect(func(yield func(string) bool) {
		for a := range publish.Published() {
			yield(a.Key)
		}
	}))
	cleanup := all[slices.IndexFunc(all, func(q any) bool { _, is := q.(Cleanup); return is })].(Cleanup)
	require.Equal(t, []Path{{Name: "/a"}, {Name: "/b"}, {"/a", true, true, true, true}, {"/b", true, true, true, true}},
		cleanup.Paths)
	require.Equal(t, []string{"/a", "/b"}, cleanup.Ignored)
}

// contents lets go-cmp compare what requests have, whatever the encoding of the message was.
var contents = cmp.Options{
	cmp.Transformer("List", items[Text]), cmp.Transformer("List", items[Proc]), cmp.Transformer("List", items[Attr]),
	cmp.Transformer("List", items[App]), cmp.Transformer("List", items[Question]),
	cmp.Transformer("Value", func(v Value) string { return string(v.Append(nil)) }),
	cmp.Transformer("Pairs", func(p Pairs) (all []Attr) {
		for key, v := range p.All() {
			all = append(all, Attr{Key: key, Value: v})
		}
		return all
	}),
}

func TestLookupDefaults(t *testing.T) {
	p := newPeer(t, "4.2.2", "v41")
	empty := func(w *writer) { top{w}.u32(0); top{w}.keys(); none(w) }
	look := p.ask(cmdLookup, empty).(Lookup)
	require.Equal(t, Lookup{Range: RangeSession}, look)
	publish := p.ask(cmdPublish, func(w *writer) { top{w}.u32(0); none(w) }).(Publish)
	require.Equal(t, Publish{Range: RangeSession, Persistence: PersistSession}, publish)
	negative := p.ask(cmdFence, func(w *writer) { writeTop(w, List[Proc]{}); none(w) }).(Fence)
	require.Zero(t, negative.Procs.Len())
	late := p.ask(cmdLookup, func(w *writer) {
		top{w}.u32(0)
		top{w}.keys()
		writeTop(w, ListOf(Attr{Key: keyTimeout, Value: IntValue(-1)}))
	}).(Lookup)
	require.Equal(t, time.Duration(0), late.Timeout)
}

// TestBodies: what each answer adds to its status, and that a failure adds nothing.
func TestBodies(t *testing.T) {
	members := ListOf(Proc{"ns", 0}, Proc{"ns", 1})
	local := ListOf(Attr{"pmix.grp.lclid", 1, SizeValue(4)})
	group := Group{Members: members, Context: 77, HasContext: true, Attrs: local}
	results := Results{[]Found{{Proc{"ns", 4}, "a", TextValue("port")}}}
	attributes := Attributes{ListOf(Attr{"pmix.x", 1, SizeValue(3)})}
	require.Empty(t, fields.Zero(show, group, results, attributes, Values{Proc{"ns", 1}, Pairs{Fixed, []byte{1}}},
		Found{Value: BoolValue(true), Key: "a", Of: Proc{"ns", 4}}, Attr{Key: "a", Flags: 1, Value: BoolValue(true)}))

	after := func(version string, c command, fill func(top), a Answer) (Status, *reader) {
		p := newPeer(t, version, "v41")
		p.ask(c, func(w *writer) { fill(top{w}) })
		return p.result(p.Answer(p.tag, a))
	}
	for c, body := range map[command]Body{
		cmdGet: Values{Proc{"ns", 1}, PairsOf(Attr{"a", 0, BoolValue(true)})}, cmdLookup: results,
		cmdSpawn: smallJob("new", 2), cmdConnect: Jobs{[]*Job{smallJob("other", 1)}}, cmdQuery: attributes,
		cmdJobControl: attributes, cmdGroupConstruct: group,
	} {
		s, r := after("5.0.7", c, sayings[c], Answer{Body: body})
		require.Equal(t, Done, s)
		require.NotEmpty(t, r.b)
		s, r = after("5.0.7", c, sayings[c], Answer{Status: TimedOut, Body: body})
		require.Equal(t, TimedOut, s)
		require.Empty(t, r.b)
	}
	_, r := after("4.2.2", cmdLookup, sayings[cmdLookup], Answer{Body: results})
	require.Equal(t, ListOf(results.Found...), topList[Found](r))
	_, r = after("4.2.2", cmdQuery, sayings[cmdQuery], Answer{Body: attributes})
	require.Equal(t, attributes.Attrs, topList[Attr](r))
	_, r = after("4.2.2", cmdQuery, sayings[cmdQuery], Answer{})
	require.Zero(t, topList[Attr](r).Len())
	_, r = after("4.2.2", cmdSpawn, sayings[cmdSpawn], Answer{Body: smallJob("new", 2)})
	require.Equal(t, "new", r.topText())
	require.NoError(t, Pairs{Flex, r.b}.Check())
	_, r = after("4.2.2", cmdConnect, sayings[cmdConnect], Answer{Body: Jobs{[]*Job{smallJob("other", 1)}}})
	r.count(1)
	object := reader{b: r.bytes()}
	require.Empty(t, r.b)
	require.Equal(t, "other", object.topText())
	require.NoError(t, Pairs{Flex, object.b}.Check())

	for _, c := range []struct {
		version string
		given   bool
		read    func(r *reader)
	}{
		{"4.2.2", true, func(r *reader) { require.EqualValues(t, 77, r.topSize()) }},
		{"4.2.2", false, func(r *reader) { require.EqualValues(t, 0, r.topSize()) }},
		{"5.0.7", true, func(r *reader) {
			require.Equal(t, members, topList[Proc](r))
			require.EqualValues(t, 77, r.topSize())
		}},
		{"5.0.7", false, func(r *reader) { require.Equal(t, members, topList[Proc](r)) }},
		{"6.1.0", true, func(r *reader) {
			require.Equal(t, members, topList[Proc](r))
			require.EqualValues(t, 1, r.topOctet())
			require.EqualValues(t, 77, r.topSize())
			require.Equal(t, group.Attrs, topList[Attr](r))
		}},
		{"7.0.0rc1", false, func(r *reader) {
			require.Equal(t, members, topList[Proc](r))
			require.EqualValues(t, 0, r.topOctet())
			require.Equal(t, group.Attrs, topList[Attr](r))
		}},
	} {
		g := group
		if !c.given {
			g.Context, g.HasContext = 0, false
		}
		_, r := after(c.version, cmdGroupConstruct, sayings[cmdGroupConstruct], Answer{Body: g})
		c.read(r)
		require.NoError(t, r.err, c.version)
		require.Empty(t, r.b, c.version)
	}
}
