package pmixserver

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/clients/pmix/pmixtest"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// A fence of some ranks takes two questions for each node but the first, and nothing of others.
func TestFenceOfSome(t *testing.T) {
	w := newWorld(t, 4, 2)
	all := w.all()
	members := []*client{all[1], all[2], all[3], all[6]}
	for round := 1; round <= 2; round++ {
		all[6].commit(pmix.ScopeGlobal, word("k", string(rune('0'+round))))
		askAll(t, pmix.Done, members, func(c *client) replyFunc {
			if c.Rank%2 == 0 {
				return c.fence(pmixtest.Procs(c.Namespace, 6, 1, 3, 2))
			}
			return c.fence(pmixtest.Procs(c.Namespace, 1, 2, 3, 6, 1)) // in another order, rank 1 twice
		})
		require.True(t, gives(t, pmix.Done, all[1].get(6, "k")).Found("k", string(rune('0'+round))), "the newest")
	}
	require.Equal(t, 2*4+2, w.count(rankwire.KindAsk), "two for each node but the first, and two for values")
	require.Zero(t, w.count(rankwire.KindCollect))

	before := len(w.frames)
	askAll(t, pmix.Done, all[4:6], func(c *client) replyFunc { return c.fence(pmixtest.Procs(c.Namespace, 4, 5)) })
	require.Len(t, w.frames, before+2, "two empty blobs; nothing else leaves the node")
}

// A rank that ends before it joins a fence of some ranks fails it for all, on every node.
func TestFenceOfSomeFails(t *testing.T) {
	for name, c := range map[string]struct {
		members []uint32
		dies    uint32
	}{
		"speaker of another node":   {[]uint32{0, 1, 2, 3}, 2},
		"other of another node":     {[]uint32{0, 1, 2, 3}, 3},
		"first speaker":             {[]uint32{0, 1, 2, 3}, 0},
		"other of the first node":   {[]uint32{0, 1, 2, 3}, 1},
		"alone on another node":     {[]uint32{0, 1, 4}, 4},
		"before anybody has joined": {[]uint32{0, 3, 2}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, 2)
			all := w.all()
			list := pmixtest.Procs(Namespace(w.job), c.members...)
			if name == "before anybody has joined" {
				w.exit(c.dies)
			}
			var fences []replyFunc
			for _, rank := range c.members {
				if rank != c.dies {
					fences = append(fences, all[rank].fence(list))
				}
			}
			w.exit(c.dies)
			w.unpark(map[job.Slot]rankwire.Answered{job.Slot(c.dies): rankwire.Failed})
			w.drain()
			for _, f := range fences {
				gives(t, pmix.Unreachable, f)
			}
		})
	}
}

// A list of all ranks is the whole job, however it is written.
func TestFenceOfAllByName(t *testing.T) {
	w := newWorld(t, 2, 1)
	all := w.all()
	lists := [][]byte{pmixtest.Procs(Namespace(w.job), 1, 0), w.wildcard()}
	askAll(t, pmix.Done, all, func(c *client) replyFunc { return c.fence(lists[c.Rank]) })
	require.Equal(t, 2, w.count(rankwire.KindCollect))
}

func (c *client) group(name string, list []byte, attrs ...pmix.Attr) replyFunc {
	return c.start(pmixtest.GroupConstruct, pmixtest.Text(name), list, pmixtest.Attrs(attrs...))
}

// contextOf is the number at the end of a reply to a client of version 5.
func contextOf(t *testing.T, r pmixtest.Reply, members []byte) uint64 {
	require.Equal(t, members, r.Body[:len(members)])
	n, used := binary.Uvarint(r.Body[len(members)+1:])
	require.Len(t, r.Body, len(members)+1+used)
	return n
}

// Groups of all and of some ranks get a number that all members agree on, and what each member has
// for the others.
func TestGroups(t *testing.T) {
	seen := map[uint64]bool{}
	for _, members := range [][]uint32{{0, 1, 2, 3}, {0, 3}, {0, 3}} {
		w := newWorld(t, 2, 2)
		all := w.all()
		list := pmixtest.Procs(Namespace(w.job), members...)
		var clients []*client
		for _, rank := range members {
			clients = append(clients, all[rank])
		}
		for range 2 {
			groups := askAll(t, pmix.Done, clients, func(c *client) replyFunc {
				mine := pmix.Attr{Key: "pmix.grp.lclid", Value: pmix.SizeValue(uint64(100 + c.Rank))}
				info := pmix.Attr{Key: "pmix.grp.info", Value: pmix.AttrsValue(mine)}
				return c.group("g", list, pmixtest.Is("pmix.grp.actxid"), info)
			})
			context := contextOf(t, groups[0], list)
			for _, g := range groups {
				require.Equal(t, context, contextOf(t, g, list))
			}
			number := pmix.Attr{Key: "pmix.grp.ctxid", Value: pmix.SizeValue(context)}
			r := gives(t, pmix.Done, all[0].get(3, "pmix.grp.lclid", number))
			require.Contains(t, string(r.Body), string(pmix.SizeValue(103).Append(nil)))
			gone := all[0].ask(pmixtest.GroupDestruct, pmixtest.Text("g"), list, pmixtest.Attrs())
			require.Equal(t, pmix.Done, gone.Status)
			seen[context] = true
		}
	}
	require.Len(t, seen, 4, "the third job is as the second, in another way")
}

// family is two jobs that share names, as a job and one that it has spawned.
func family(t *testing.T) (a, b *world) {
	a = newWorld(t, 2, 2)
	j := *newWorld(t, 1, 3).job
	j.ID, j.Secret[0] = "fedcba9876543210", 9
	return a, worldOf(t, &j, a.names)
}

// Ranks of two jobs that have connected find each other's values and places.
func TestConnect(t *testing.T) {
	a, b := family(t)
	ranks := append(a.all(), b.all()...)
	list := pmixtest.AllProcs(a.wildcard(), b.wildcard())
	for _, value := range []string{"one", "two"} {
		connects := askAll(t, pmix.Done, ranks, func(c *client) replyFunc {
			c.commit(pmix.ScopeRemote, word("k", value))
			return c.start(pmixtest.Connect, list, pmixtest.Attrs())
		})
		for i, r := range connects {
			other := map[bool]*world{true: b, false: a}[i < 4]
			require.Contains(t, string(r.Body), Namespace(other.job))
			require.Contains(t, string(r.Body), "pmix.job.size")
		}
		of := func(from *client, w *world, rank uint32, key string) pmixtest.Reply {
			return gives(t, pmix.Done, from.start(pmixtest.Get, pmixtest.Text(Namespace(w.job)), pmixtest.U32(rank),
				pmixtest.Attrs(), pmixtest.Text(key)))
		}
		require.True(t, of(ranks[0], b, 2, "k").Found("k", value))
		require.True(t, of(ranks[5], a, 3, "k").Found("k", value))
		of(ranks[5], a, 3, "pmix.lrank")
		gives(t, pmix.NotFound, ranks[5].start(pmixtest.Get, pmixtest.Text(Namespace(a.job)), pmixtest.U32(4),
			pmixtest.Attrs(), pmixtest.Text("k")))
		askAll(t, pmix.Done, ranks, func(c *client) replyFunc {
			return c.start(pmixtest.Disconnect, list, pmixtest.Attrs())
		})
	}
	require.Empty(t, of[Warn](a))
}

// Some ranks of two jobs connect; the lists name them one by one, in any order.
func TestConnectSome(t *testing.T) {
	a, b := family(t)
	x, y, z := a.client(1), a.client(2), b.client(2)
	one := pmixtest.AllProcs(pmixtest.Procs(x.Namespace, 1, 2), pmixtest.Procs(z.Namespace, 2))
	two := pmixtest.AllProcs(pmixtest.Procs(z.Namespace, 2), pmixtest.Procs(x.Namespace, 2, 1))
	fz := z.start(pmixtest.Connect, two, pmixtest.Attrs())
	fx := x.start(pmixtest.Connect, one, pmixtest.Attrs())
	waits(t, fx)
	waits(t, fz)
	gives(t, pmix.Done, y.start(pmixtest.Connect, two, pmixtest.Attrs()))
	gives(t, pmix.Done, fx)
	gives(t, pmix.Done, fz)

	// One list is of all ranks of a job, which the other job does not know.
	all := pmixtest.AllProcs(pmixtest.Procs(x.Namespace, 1), pmixtest.Procs(z.Namespace, 0, 1, 2))
	fs := []replyFunc{z.start(pmixtest.Connect, all, pmixtest.Attrs())}
	for _, rank := range []uint32{0, 1} {
		fs = append(fs, b.client(rank).start(pmixtest.Connect, all, pmixtest.Attrs()))
	}
	for _, f := range append(fs, x.start(pmixtest.Connect, all, pmixtest.Attrs())) {
		gives(t, pmix.Done, f)
	}
}

func TestRuns(t *testing.T) {
	runs := []job.SlotRun{{First: 0, End: 6, Number: 3}, {First: 6, End: 7, Number: 4}, {First: 9, End: 10, Number: 2}}
	require.Equal(t, runs, parseRuns(appendRuns(nil, runs)))
	for _, bad := range [][]byte{{0x80}, {0, 0, 1}, {0, 1}, {0xff, 0xff, 0xff, 0xff, 0x7f, 1, 1}} {
		require.Empty(t, parseRuns(bad))
	}
}

// News of many ranks that have committed alike are one parcel of one run, at every level.
func TestJoin(t *testing.T) {
	parcel := func(slot job.Slot, number uint32) rankwire.Parcel {
		value := appendRuns([]byte{holdsNews}, []job.SlotRun{{First: slot, End: slot + 1, Number: number}})
		return rankwire.Parcel{From: slot, To: rankwire.Everyone, Value: value}
	}
	other := rankwire.Parcel{From: 3, To: rankwire.Everyone, Value: []byte{holdsGroup, 1}}
	low := Join(rankwire.NewParcels(parcel(1, 2), other, parcel(0, 2)))
	high := Join(low.Join(Join(rankwire.NewParcels(parcel(2, 2), parcel(3, 2)))))
	require.Equal(t, []rankwire.Parcel{
		other, {From: 0, To: rankwire.Everyone, Value: appendRuns([]byte{holdsNews}, []job.SlotRun{{End: 4, Number: 2}})},
	}, slices.Collect(high.All()))
	require.Equal(t, high, Join(high))
}
