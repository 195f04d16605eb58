package pmixserver

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/clients/pmix/pmixtest"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

func (c *client) publish(attrs ...pmix.Attr) pmixtest.Reply {
	return c.ask(pmixtest.Publish, pmixtest.U32(0), pmixtest.Attrs(attrs...))
}

func (c *client) lookUp(keys []string, attrs ...pmix.Attr) replyFunc {
	return c.start(pmixtest.Lookup, pmixtest.U32(0), pmixtest.Keys(keys...), pmixtest.Attrs(attrs...))
}

func (c *client) unpublish(keys ...string) pmixtest.Reply {
	return c.ask(pmixtest.Unpublish, pmixtest.U32(0), pmixtest.Keys(keys...), pmixtest.Attrs())
}

func ranged(r pmix.Range) pmix.Attr { return small("pmix.range", pmix.TypeRange, byte(r)) }

// small is an attribute of a type of one byte.
func small(key string, kind pmix.Type, n byte) pmix.Attr {
	v, err := pmix.ParseValue([]byte{byte(kind), n})
	if err != nil {
		panic(err)
	}
	return pmix.Attr{Key: key, Value: v}
}

func TestNames(t *testing.T) {
	a, b := family(t)
	x, y, z := a.client(0), a.client(3), b.client(1)
	early := z.lookUp([]string{"ocean"}, pmixtest.Is("pmix.wait"))
	two := y.lookUp([]string{"rain", "ocean"}, pmixtest.Is("pmix.wait"))
	gives(t, pmix.NotFound, y.lookUp([]string{"ocean"}))
	require.Equal(t, pmix.Done, x.publish(word("ocean", "port 1"), word("sea", "port 2")).Status)
	for _, answer := range []replyFunc{early, y.lookUp([]string{"ocean", "none"})} {
		r := gives(t, pmix.Done, answer)
		require.Contains(t, string(r.Body), "port 1")
		require.Contains(t, string(r.Body), Namespace(a.job), "the publisher")
	}
	waits(t, two)
	require.Equal(t, pmix.Exists, z.publish(word("ocean", "port 3")).Status)
	require.Equal(t, pmix.Done, x.publish(word("rain", "r"), small("pmix.persist", pmix.TypePersistence, 1)).Status)
	require.Contains(t, string(gives(t, pmix.Done, two).Body), "port 1")
	gives(t, pmix.NotFound, x.lookUp([]string{"rain"})) // it has been read
	require.Equal(t, pmix.Done, x.unpublish("ocean").Status)
	require.Equal(t, pmix.NotFound, x.unpublish("ocean").Status)
	require.Equal(t, pmix.Done, x.unpublish().Status, "all that is left: sea")
	gives(t, pmix.NotFound, x.lookUp([]string{"sea"}))
	require.Equal(t, pmix.Done, y.publish().Status)

	require.Equal(t, pmix.Done, x.publish(word("own", "p"), ranged(pmix.RangeNamespace)).Status)
	gives(t, pmix.Done, y.lookUp([]string{"own"}, ranged(pmix.RangeNamespace)))
	gives(t, pmix.NotFound, z.lookUp([]string{"own"}, ranged(pmix.RangeNamespace)))

	timed := y.lookUp([]string{"never"}, pmixtest.Is("pmix.wait"),
		pmix.Attr{Key: "pmix.timeout", Value: pmix.IntValue(3)})
	waits(t, timed)
	due := of[Timer](a)[0]
	require.Equal(t, Timer{y.call, due.Tag, 3 * time.Second}, due)
	a.obey(1, a.servers[1].Due(due.Call, due.Tag))
	gives(t, pmix.TimedOut, timed)

	require.Equal(t, pmix.OutOfResource, x.publish(word("long", strings.Repeat("x", rankwire.MaxPort))).Status)
	gives(t, pmix.BadParameter, x.lookUp([]string{strings.Repeat("x", 2000)}))
	gives(t, pmix.BadParameter, x.lookUp(nil))
	many := make([]string, maxKeys+1)
	gives(t, pmix.BadParameter, x.lookUp(many))
	require.Equal(t, pmix.OutOfResource, x.unpublish(many...).Status)
}

// app is a program of a Spawn as it is on the wire.
func app(command string, argv, env []string, dir string, ranks int32) []byte {
	b := []byte(nil)
	add := func(s string) { b = append(b, pmixtest.Text(s)[1:]...) }
	number := func(n int) { b = append(b, pmixtest.Status(pmix.Status(n))[1:]...) }
	add(command)
	for _, list := range [][]string{argv, env} {
		number(len(list))
		for _, s := range list {
			add(s)
		}
	}
	add(dir)
	number(int(ranks))
	return append(b, 0) // no attributes
}

func spawnOf(apps ...[]byte) [][]byte {
	list := append(pmixtest.Size(len(apps)), pmixtest.Status(pmix.Status(len(apps)))[1:]...)
	for _, a := range apps {
		list = append(list, a...)
	}
	return [][]byte{pmixtest.Attrs(), list}
}

func TestSpawn(t *testing.T) {
	w := newWorld(t, 1, 2)
	c := w.client(1)
	first := c.start(pmixtest.Spawn, spawnOf(
		app("/bin/a", []string{"a", "-x"}, []string{"E=1"}, "/d", 3), app("b", nil, nil, "", 1))...)
	second := c.start(pmixtest.Spawn, spawnOf(app("c", []string{"c"}, nil, "", 1))...)
	require.Equal(t, 1, w.count(rankwire.KindSpawnJob), "one at a time")
	asked := w.frames[len(w.frames)-1].Msg.(rankwire.SpawnJob)
	child := *w.job
	child.Preput = slices.Collect(asked.Preput.All())
	told := string(worldOf(t, &child, w.names).client(0).ask(pmixtest.GetJob).Body)
	parent := pmix.ProcValue(pmix.Proc{Namespace: Namespace(w.job), Rank: 1})
	both := pmix.PairsOf(pmixtest.Is("pmix.spawned"), pmix.Attr{Key: "pmix.parent", Value: parent})
	require.Contains(t, told, string(both.Bytes))
	require.NotContains(t, string(c.ask(pmixtest.GetJob).Body), "pmix.parent")
	require.Equal(t, []rankwire.Command{
		{Argv: rankwire.NewStrings("/bin/a", "-x"), Env: rankwire.NewStrings("E=1"), Ranks: 3, Dir: "/d"},
		{Argv: rankwire.NewStrings("b"), Env: rankwire.NewStrings(), Ranks: 1},
	}, slices.Collect(asked.Commands.All()))
	w.deliver(1, rankwire.JobSpawned{Rank: 1, JobID: "j", Namespace: "new"})
	w.drain()
	r := gives(t, pmix.Done, first)
	require.Contains(t, string(r.Body), "new\x00")
	require.Contains(t, string(r.Body), "pmix.job.size\x00\x0e\x04", "four ranks")
	require.Equal(t, 2, w.count(rankwire.KindSpawnJob))
	waits(t, second)
	w.deliver(1, rankwire.JobSpawned{Rank: 1, Refused: "no such host"})
	w.deliver(1, rankwire.JobSpawned{Rank: 1, Refused: "asked for by nobody"})
	w.drain()
	gives(t, pmix.LaunchFailed, second)
	require.Equal(t, []Warn{{"rank 1: nothing was spawned: no such host"}}, of[Warn](w))
}

// Open MPI 5 learns the sizes and first ranks of several programs, in the order of their numbers.
func TestProgramsOfOpenMPI(t *testing.T) {
	for want, programs := range map[string][]job.Program{
		"3 1, 0 3": {{Count: 3}, {First: 3, Count: 1, App: 1}},
		"2 2, 1 0": {{Count: 1, App: 1}, {First: 1, Count: 2}, {First: 3, Count: 1, App: 1, Offset: 1}},
		"":         {{Count: 4}},
	} {
		j := *newWorld(t, 2, 2).job
		j.Programs = programs
		told := string(worldOf(t, &j, nil).client(0).ask(pmixtest.GetJob).Body)
		sizes, firsts, _ := strings.Cut(want, ", ")
		for key, value := range map[string]string{"OMPI_APP_SIZES": sizes, "OMPI_FIRST_RANKS": firsts} {
			if value == "" {
				require.NotContains(t, told, key)
			} else {
				require.Contains(t, told, string(pmix.PairsOf(word(key, value)).Bytes))
			}
		}
	}
}

func TestEvents(t *testing.T) {
	w := newWorld(t, 2, 2)
	all := w.all()
	register := func(c *client, codes ...pmix.Status) {
		b := pmixtest.Size(len(codes))
		if len(codes) > 0 {
			b = append(b, pmixtest.Status(pmix.Status(len(codes)))[1:]...)
		}
		for _, code := range codes {
			b = append(b, pmixtest.Status(code)[1:]...)
		}
		require.Equal(t, pmix.Done, c.ask(pmixtest.RegisterEvents, b, pmixtest.Attrs()).Status)
	}
	register(all[0], -5)
	register(all[1], -5)
	register(all[2], -5)
	again := w.client(0)
	register(again)
	notify := func(c *client, code pmix.Status, r pmix.Range) {
		require.Equal(t, pmix.Done, c.ask(pmixtest.Notify, pmixtest.Status(code), pmixtest.U8(byte(r)),
			pmixtest.Attrs(word("k", "v"))).Status)
	}
	notify(all[0], -5, pmix.RangeNamespace)
	notify(all[0], -6, pmix.RangeLocal)
	notify(all[0], -5, pmix.RangeProcLocal)
	count := func() (n []int) {
		for _, c := range append(all, again) {
			n = append(n, len(c.events))
		}
		return n
	}
	require.Equal(t, []int{0, 1, 0, 0, 2}, count(), "of this node, and not to the sender")

	register(all[2])
	w.deliver(2, rankwire.Failures{Ranks: rankwire.NewSlotSpans(rankwire.SlotSpan{First: 0, Count: 2})})
	w.drain()
	require.Equal(t, []int{0, 1, 2, 0, 2}, count())
	require.Contains(t, string(all[2].events[1].Body), "pmix.evproc")
	require.Equal(t, pmix.LeftWithoutLeave, eventCode(all[2].events[0]))
}

// eventCode is the status behind the command of an event.
func eventCode(r pmixtest.Reply) pmix.Status {
	c := pmixtest.New("", 0)
	b := make([]byte, 24) // a handshake, and the header of a reply
	b[15], b[19] = 9, byte(len(r.Body))
	for _, r := range c.Receive(append(b, r.Body...)) {
		if r.Tag == 9 {
			return r.Status
		}
	}
	return 0
}

func TestCleanup(t *testing.T) {
	w := newWorld(t, 1, 1)
	c := w.client(0)
	control := func(attrs ...pmix.Attr) pmix.Status {
		return c.ask(pmixtest.JobControl, pmixtest.Procs(c.Namespace), pmixtest.Attrs(attrs...)).Status
	}
	require.Equal(t, pmix.Done, control(word("pmix.reg.cleanup", "/dev/shm/a,/tmp/b")))
	require.Equal(t, pmix.Done, control(word("pmix.reg.cleanupdir", "/tmp/d")))
	require.Equal(t, pmix.Done, control(word("pmix.reg.cleanupdir", "/tmp/e"), pmixtest.Is("pmix.clnup.recurse")))
	require.Equal(t, pmix.Done, control(word("pmix.reg.cleanupdir", "/tmp/f"), pmixtest.Is("pmix.clnup.recurse"),
		pmixtest.Is("pmix.clnup.empty")))
	require.Equal(t, pmix.Done, control(word("pmix.reg.cleanupdir", "/tmp/g"), pmixtest.Is("pmix.clnup.lvtop")))
	require.Equal(t, pmix.Done,
		control(word("pmix.reg.cleanup", "/tmp/h,/tmp/i"), word("pmix.clnup.ignore", "/tmp/h")))
	require.Equal(t, pmix.NotSupported, control(word("pmix.jctrl.kill", "")))
	require.Equal(t, []RemoveLater{
		{1, "/dev/shm/a", false}, {1, "/tmp/b", false}, {1, "/tmp/d", false}, {1, "/tmp/e", true}, {1, "/tmp/f", false},
		{1, "/tmp/i", false},
	}, of[RemoveLater](w))
}

func TestLog(t *testing.T) {
	w := newWorld(t, 1, 1)
	c := w.client(0)
	log := func(attrs ...pmix.Attr) {
		r := c.ask(pmixtest.Log, pmixtest.U32(0), pmixtest.Attrs(attrs...), pmixtest.Attrs())
		require.Equal(t, pmix.Done, r.Status)
	}
	log(word("pmix.log.stderr", "a line"), word("pmix.log.stdout", "two\nlines\n"), word("pmix.log.stderr", ""))
	require.Equal(t, []Print{{0, 1, []byte("two\nlines\n")}, {0, 2, []byte("a line\n")}}, of[Print](w))
	w.effects = nil
	for range 2 * maxLogged >> 20 {
		log(word("pmix.log.stderr", strings.Repeat("x", 1<<20)))
	}
	size := 0
	for _, p := range of[Print](w) {
		require.LessOrEqual(t, len(p.Text), maxPiece)
		size += len(p.Text)
	}
	require.Less(t, size, maxLogged+100, "no flood")
	require.Greater(t, size, maxLogged/2)
}

func TestQuery(t *testing.T) {
	w := newWorld(t, 1, 1)
	c := w.client(0)
	query := func(key string) pmixtest.Reply {
		one := append(pmixtest.Status(1)[1:], pmixtest.Text(key)[1:]...)
		return c.ask(pmixtest.Query, pmixtest.Size(1), append([]byte{2}, append(one, 0)...))
	}
	require.Contains(t, string(query("pmix.qry.ns").Body), c.Namespace)
	require.Equal(t, pmix.NotFound, query("pmix.qry.psetnum").Status)
}

// What clients are told: of a small job all ranks, of a large one those of the node.
func TestJob(t *testing.T) {
	for _, size := range []uint32{64, 65536} {
		w, made := newWorld(t, size/16, 16), 0
		w.servers[1].Placed(Placement{
			Folder: "/tmp/x", Oversubscribed: true,
			Ranks:    []RankPlacement{{CPUs: "0-3", Locality: "SK0", Folder: "/tmp/x/16"}},
			Topology: func() string { made++; return "<topology/>" },
		})
		c := w.client(16)
		require.Zero(t, made)
		body := string(c.ask(pmixtest.GetJob).Body)
		ranks := strings.Count(body, "pmix.pblob")
		if size == 64 {
			require.Equal(t, 64, ranks)
			require.Less(t, len(body), 64*170)
		} else {
			require.Equal(t, 16, ranks)
			require.Less(t, len(body), 4000)
		}
		for _, want := range []string{
			"16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\x00", "pmix.ndosub", "hwloc:0-3",
			"SK0\x00", "/tmp/x/16\x00", "pmix.tmpdir", "node1\x00",
			"pmix.hwlocxml2\x00" + string(pmix.TextValue("<topology/>").Append(nil)),
		} {
			require.Contains(t, body, want)
		}
		w.client(17).ask(pmixtest.GetJob)
		require.Equal(t, 1, made, "once for the node")
		far := size - 1
		r := gives(t, pmix.Done, c.get(far, "pmix.lrank"))
		require.Contains(t, string(r.Body), "pmix.lrank\x00"+string(pmix.Uint16Value(15).Append(nil)))
		require.Contains(t, string(r.Body), "pmix.nodeid")
		require.Zero(t, w.count(rankwire.KindAsk), "all of this is known")
	}
}

// A job of several programs: the number of each rank's program, and its place in it.
func TestSeveralPrograms(t *testing.T) {
	w := newWorld(t, 1, 4)
	w.job.Programs = []job.Program{{Count: 1}, {First: 1, Count: 3, App: 1, Offset: 2}}
	c := w.client(0)
	require.Contains(t, string(c.ask(pmixtest.GetJob).Body), "pmix.job.napps\x00\x0e\x02")
	p := w.servers[0].placeOf(3)
	require.Equal(t, []any{uint32(1), pmix.Rank(4)}, []any{p.App, p.AppRank})
}
