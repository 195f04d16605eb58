package pmixserver

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/clients/pmix/pmixtest"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// wildcard is the list of all ranks of a world.
func (w *world) wildcard() []byte { return pmixtest.Procs(Namespace(w.job), pmixtest.Wildcard) }

// key is a key and a value of a rank.
func word(key, value string) pmix.Attr { return pmixtest.Word(key, value) }

func (c *client) commit(scope pmix.Scope, attrs ...pmix.Attr) pmixtest.Reply {
	return c.ask(pmixtest.Commit, pmixtest.Values(scope, attrs...))
}

// get sends a Get request for a key of a rank of the client's own job.
func (c *client) get(rank uint32, key string, attrs ...pmix.Attr) replyFunc {
	return c.start(pmixtest.Get, pmixtest.Text(c.Namespace), pmixtest.U32(rank), pmixtest.Attrs(attrs...),
		pmixtest.Text(key))
}

func (c *client) fence(list []byte) replyFunc {
	return c.start(pmixtest.Fence, list, pmixtest.Attrs())
}

// replyFunc returns the reply to a request, or false as long as there is none.
type replyFunc = func() (pmixtest.Reply, bool)

// askAll calls ask for each client to send a request that is answered when all clients have sent theirs, such as a
// fence. It asserts that no reply arrives before the last request, and that all replies have the status want. It
// returns the replies in the order of clients.
func askAll(t *testing.T, want pmix.Status, clients []*client, ask func(c *client) replyFunc) (all []pmixtest.Reply) {
	t.Helper()
	var asked []replyFunc
	for _, c := range clients {
		for _, r := range asked {
			waits(t, r)
		}
		asked = append(asked, ask(c))
	}
	for _, r := range asked {
		all = append(all, gives(t, want, r))
	}
	return all
}

// fenceAll lets every rank of the job call a fence of all ranks, which must succeed. clients must have one client for
// each rank.
func (w *world) fenceAll(t *testing.T, clients []*client) {
	t.Helper()
	askAll(t, pmix.Done, clients, func(c *client) replyFunc { return c.fence(w.wildcard()) })
}

// waits asserts that a request has no reply yet.
func waits(t *testing.T, answer replyFunc) {
	t.Helper()
	_, ok := answer()
	require.False(t, ok)
}

// gives asserts that a request has a reply with the status want, and returns the reply.
func gives(t *testing.T, want pmix.Status, answer replyFunc) pmixtest.Reply {
	t.Helper()
	r, ok := answer()
	require.True(t, ok, "there is no answer")
	require.Equal(t, want, r.Status)
	return r
}

// A modex: what is put for other nodes is found there by one question for each rank, and the fence
// carries nothing.
func TestModex(t *testing.T) {
	w := newWorld(t, 2, 2)
	all := w.all()
	for _, c := range all {
		require.Contains(t, string(c.ask(pmixtest.GetJob).Body), "pmix.job.size")
		c.commit(pmix.ScopeLocal, word("l", "local"))
		c.commit(pmix.ScopeRemote, word("r", "remote"))
	}
	w.fenceAll(t, all)
	for _, c := range all {
		for peer := range w.job.Size {
			key, value := "r", "remote"
			if w.nodeOf(peer) == c.node {
				key, value = "l", "local"
			}
			require.True(t, gives(t, pmix.Done, c.get(peer, key)).Found(key, value), "%d of %d", peer, c.Rank)
		}
	}
	require.Equal(t, 8, w.count(rankwire.KindAsk), "each rank has two peers elsewhere")
	require.Equal(t, 4, w.count(rankwire.KindCollect))
	for _, f := range w.frames {
		if c, ok := f.Msg.(rankwire.Collect); ok {
			require.Zero(t, c.Parcels.Len())
		}
	}
	for _, c := range all {
		require.Equal(t, pmix.Done, c.ask(pmixtest.Finalize).Status)
		require.False(t, w.servers[c.node].Awaits(job.Slot(c.Rank)))
		c.close()
		w.exit(c.Rank)
	}
	require.Equal(t, 4, w.count(rankwire.KindFinalize))
	require.Zero(t, w.count(rankwire.KindAbort))
	require.Empty(t, of[Warn](w))
	require.Len(t, of[FirstClient](w), 2, "one on each node")
}

// A Get waits until the rank commits the key, wherever it is.
func TestGetWaits(t *testing.T) {
	w := newWorld(t, 2, 2)
	all := w.all()
	near, far, again := all[1].get(0, "k"), all[2].get(0, "k"), all[3].get(0, "k")
	both, absent := all[3].get(0, "j"), all[1].get(0, "k", pmixtest.Is("pmix.immediate"))
	gives(t, pmix.NotFound, absent)
	gives(t, pmix.NotFound, all[2].get(0, "k", pmixtest.Is("pmix.immediate")))
	all[0].commit(pmix.ScopeGlobal, word("j", "1"))
	waits(t, near)
	waits(t, far)
	gives(t, pmix.Done, both)
	all[0].commit(pmix.ScopeGlobal, word("k", "2"))
	for _, f := range []replyFunc{near, far, again} {
		r := gives(t, pmix.Done, f)
		require.True(t, r.Found("k", "2"))
		require.True(t, r.Found("j", "1"), "the second commit adds to the first")
	}
	require.Equal(t, 2, w.count(rankwire.KindAsk), "one for each blob, from the other node")
	gives(t, pmix.NotFound, all[0].get(4, "k"))
	gives(t, pmix.NotFound, all[0].get(pmixtest.Wildcard, "pmix.hwlocxml2"))
	gives(t, pmix.NotFound, all[0].start(pmixtest.Get, pmixtest.Text("other"), pmixtest.U32(0), pmixtest.Attrs(),
		pmixtest.Text("k")))
	timed := all[0].get(1, "k", pmix.Attr{Key: "pmix.timeout", Value: pmix.IntValue(2)})
	waits(t, timed)
	due := of[Timer](w)
	require.Len(t, due, 1)
	w.obey(0, w.servers[0].Due(due[0].Call, due[0].Tag))
	gives(t, pmix.TimedOut, timed)
	w.obey(0, w.servers[0].Due(99, 1)) // of a connection that is gone
}

// What a rank commits again is found after the next fence, in place of the old value.
func TestCommitAgain(t *testing.T) {
	w := newWorld(t, 3, 2)
	all := w.all()
	for round, value := range []string{"one", "two", "three"} {
		for _, c := range all {
			if round == 0 || c.Rank%2 == 0 {
				c.commit(pmix.ScopeGlobal, word("k", value))
			}
		}
		w.fenceAll(t, all)
		for _, c := range all {
			for peer := range w.job.Size {
				want := value
				if peer%2 == 1 {
					want = "one"
				}
				require.True(t, gives(t, pmix.Done, c.get(peer, "k")).Found("k", want), "round %d", round)
			}
		}
	}
	before := w.count(rankwire.KindPut)
	all[0].commit(pmix.ScopeGlobal, word("k", "three"))
	require.Equal(t, before, w.count(rankwire.KindPut), "nothing is new")
	long := strings.Repeat("x", maxBlob)
	require.Equal(t, pmix.OutOfResource, all[0].commit(pmix.ScopeLocal, word("long", long)).Status)
	require.True(t, gives(t, pmix.Done, all[1].get(0, "k")).Found("k", "three"))
}

// Ranks that have gone, well or not, end what waits for them.
func TestGetOfEnded(t *testing.T) {
	w := newWorld(t, 2, 2)
	all := w.all()
	near, far := all[1].get(0, "k"), all[2].get(0, "k")
	require.Equal(t, pmix.Done, all[0].ask(pmixtest.Finalize).Status)
	gives(t, pmix.NotFound, near)
	waits(t, far) // an empty blob was put, which does not have it
	w.unpark(map[job.Slot]rankwire.Answered{0: rankwire.Exited})
	w.drain()
	gives(t, pmix.NotFound, far)
	lost := all[2].get(1, "k")
	w.unpark(map[job.Slot]rankwire.Answered{1: rankwire.Failed})
	w.drain()
	gives(t, pmix.Unreachable, lost)
	dead := all[3].get(2, "k")
	w.exit(2)
	gives(t, pmix.NotFound, dead)
}

// Two programs one after the other in each rank are told apart.
func TestPrograms(t *testing.T) {
	w := newWorld(t, 2, 1)
	for _, value := range []string{"a", "b"} {
		all := w.all()
		early := all[1].get(0, "k")
		waits(t, early)
		for _, c := range all {
			c.commit(pmix.ScopeGlobal, word("k", value))
		}
		require.True(t, gives(t, pmix.Done, early).Found("k", value))
		w.fenceAll(t, all)
		require.True(t, gives(t, pmix.Done, all[0].get(1, "k")).Found("k", value))
		for _, c := range all {
			c.ask(pmixtest.Finalize)
			c.close()
		}
	}
	require.Empty(t, of[Warn](w))

	// One that ends without Finalize is the rank's last.
	w.client(0).close()
	refused := w.connect(0, Namespace(w.job), 0)
	require.Equal(t, pmix.NotSupported, refused.hello().Status)
	require.Contains(t, of[Warn](w)[0].Text, "ended without PMIx_Finalize")
	require.True(t, w.servers[0].Awaits(0))
}

// Two connections of a rank at the same time are one program.
func TestConnections(t *testing.T) {
	w := newWorld(t, 1, 2)
	a, b := w.client(0), w.client(0)
	b.commit(pmix.ScopeGlobal, word("k", "v"))
	b.ask(pmixtest.Finalize)
	b.close()
	require.True(t, gives(t, pmix.Done, a.get(0, "k")).Found("k", "v"))
	require.Equal(t, 1, w.count(rankwire.KindHello))
	require.Zero(t, w.count(rankwire.KindFinalize))
	a.ask(pmixtest.Finalize)
	require.Equal(t, 1, w.count(rankwire.KindFinalize))
	a.send([]byte{1}) // after it
	a.send(a.Request(pmixtest.GetJob))
	require.True(t, a.over)
	require.Len(t, of[Warn](w), 1)
}

func TestRefusals(t *testing.T) {
	w := newWorld(t, 2, 2)
	for name, c := range map[string]*client{
		"namespace":       w.connect(0, "ibrun-0", 0),
		"empty namespace": w.connect(0, "", 0),
		"other node":      w.connect(0, Namespace(w.job), 2),
		"no such rank":    w.connect(0, Namespace(w.job), 4),
		"wildcard":        w.connect(0, Namespace(w.job), pmixtest.Wildcard),
	} {
		require.Negative(t, c.hello().Status, name)
		require.False(t, c.over, name)
		c.send([]byte{0})
		require.True(t, c.over, name)
	}
	old := w.connect(0, Namespace(w.job), 0)
	old.Dialect = "v20"
	require.Negative(t, old.hello().Status)
	require.Empty(t, w.frames)
	require.Empty(t, w.effects, "the user hears nothing of it")

	require.True(t, w.servers[0].Take(1))
	require.Equal(t, pmix.NotSupported, w.connect(0, Namespace(w.job), 1).hello().Status)
	require.Contains(t, of[Warn](w)[0].Text, "rank 1: a program that speaks PMIx was refused: another program")
	late := w.connect(0, Namespace(w.job), 0)
	w.exit(0)
	require.Negative(t, late.hello().Status)

	c := w.client(2)
	require.Equal(t, pmix.NotSupported, c.ask(99).Status)
	require.Equal(t, pmix.NotSupported, c.ask(pmixtest.Spawn+8).Status)
	for _, list := range [][]byte{
		pmixtest.Procs(c.Namespace, 3), pmixtest.Procs(c.Namespace, 2, 9), pmixtest.Procs("other", 2),
	} {
		gives(t, pmix.BadParameter, c.fence(list))
	}
}

// One rank's programs speak PMIx or something else, not both, whichever comes first.
func TestOneProtocolForARank(t *testing.T) {
	w := newWorld(t, 1, 2)
	server := w.servers[0]
	require.True(t, server.Take(0))
	require.True(t, server.Take(0), "again")
	require.Equal(t, pmix.NotSupported, w.connect(0, Namespace(w.job), 0).hello().Status)
	require.True(t, server.Take(0), "the refused one does not count")

	c := w.client(1)
	require.False(t, server.Take(1))
	w.obey(0, server.RefusePMI(1))
	w.obey(0, server.RefusePMI(1)) // what was on its way
	require.Equal(t, []ShutPMI{{1}}, of[ShutPMI](w))
	require.Len(t, of[Warn](w), 2)
	require.Equal(t, "rank 1: a program that speaks PMI was refused: another program of this rank has joined the job "+
		"by PMIx: start this one as a job of its own", of[Warn](w)[1].Text)
	c.ask(pmixtest.Finalize)
	require.False(t, server.Take(1), "not after it either")
	require.Equal(t, pmix.Done, w.client(1).hello().Status, "another client of PMIx can")
}

func TestAbort(t *testing.T) {
	for code, want := range map[pmix.Status]uint8{0: 0, 7: 7, 256: 1} {
		w := newWorld(t, 1, 2)
		w.client(1).ask(pmixtest.Abort, pmixtest.Status(code), pmixtest.Text("why"), pmixtest.Procs("x"))
		require.Equal(t, ClientFrame{1, rankwire.Abort{Code: want, Text: "why"}}, w.frames[len(w.frames)-1])
	}
}

// A failure of a fence ends the job, and says why.
func TestFenceFails(t *testing.T) {
	w := newWorld(t, 2, 1)
	w.client(0).fence(w.wildcard())
	w.deliver(0, rankwire.Release{Op: 1, Trouble: "rank 1 ended before it joined"})
	w.drain()
	require.Equal(t, rankwire.Abort{
		Code: 1, Text: "it waits in a PMIx fence in vain: rank 1 ended before it joined",
	}, w.frames[len(w.frames)-1].Msg)
}
