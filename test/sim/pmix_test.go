package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/clients/pmix/pmixtest"
	"ibrun/bootstrap/clients/pmixserver"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// pmixClients is a job whose ranks speak PMIx: production servers beside production cores. Each
// rank asks for the job, commits, fences, gets what some others have committed, fences and leaves.
type pmixClients struct {
	*World
	callQueue
	t       *testing.T
	servers []*pmixserver.Server
	ranks   []pmixRank
	gets    func(rank, i int) (from int, more bool) // the i-th rank that a rank gets the values of
	taken   int                                     // number of answered gets
	given   int                                     // bytes of the newest reply that describes the job to a rank
}

type pmixRank struct {
	*pmixtest.Client
	slot     job.Slot
	step     int
	got, due int
}

// pmixBlob is what a rank commits for others.
func pmixBlob(rank int) string { return fmt.Sprintf("%080x", rank) } // as long as an address of TCP

func pmixJob(t *testing.T, cfg Config, gets func(rank, i int) (int, bool)) *pmixClients {
	x := &pmixClients{t: t, gets: gets}
	cfg.Run = time.Hour
	cfg.ToRank = func(node, rank uint32, m frame.Message) {
		x.obey(node, x.servers[node].Deliver(job.Slot(rank), m))
	}
	for i := range job.NodeIndex(cfg.Job.Nodes) {
		first, count := cfg.Job.Layout.SlotsOn(i)
		n := job.Node{Host: fmt.Sprintf("n%d", i), First: first, Ranks: count}
		x.servers = append(x.servers, pmixserver.New(cfg.Job, n, i))
	}
	for slot := range job.Slot(cfg.Job.Size) {
		c := pmixtest.New(pmixserver.Namespace(cfg.Job), uint32(cfg.Job.Layout.Rank(slot)))
		x.ranks = append(x.ranks, pmixRank{Client: c, slot: slot})
	}
	x.World = New(cfg)
	x.At(3*time.Second, func() {
		for i := range x.ranks {
			x.send(&x.ranks[i], x.ranks[i].Hello())
		}
	})
	return x
}

func (x *pmixClients) node(slot job.Slot) uint32 { return uint32(x.cfg.Job.Layout.NodeOf(slot)) }

// send sends bytes of a rank. Its connection has the number of its slot, from 1.
func (x *pmixClients) send(r *pmixRank, b []byte) {
	node := x.node(r.slot)
	x.obey(node, x.servers[node].Receive(uint32(r.slot)+1, b))
}

func (x *pmixClients) obey(node uint32, effects []pmixserver.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case pmixserver.Bytes:
			x.add(func() {
				r := &x.ranks[e.Call-1]
				for _, reply := range r.Receive(e.Bytes) {
					x.next(r, reply)
				}
			})
		case pmixserver.ClientFrame:
			x.Post(node, core.RankFrame{Rank: e.Rank, Msg: e.Msg})
		case pmixserver.Warn:
			x.t.Fatal(e.Text)
		}
	}
	x.runAll()
}

// next takes a rank's next step.
func (x *pmixClients) next(r *pmixRank, reply pmixtest.Reply) {
	if r.step != 1 {
		require.Equal(x.t, pmix.Done, reply.Status, "rank %d, step %d", r.Rank, r.step)
	}
	r.step++
	switch r.step {
	case 1:
		x.send(r, r.Request(pmixtest.GetJob))
	case 2:
		x.given = len(reply.Body)
		blob := pmixtest.Word("k", pmixBlob(int(r.Rank)))
		x.send(r, r.Request(pmixtest.Commit, pmixtest.Values(pmix.ScopeGlobal, blob)))
	case 3:
		x.fence(r)
	case 4:
		x.get(r)
	case 5:
		if !strings.Contains(string(reply.Body), pmixBlob(r.due)) {
			x.t.Fatalf("rank %d gets %q from rank %d", r.Rank, reply.Body, r.due)
		}
		x.taken++
		x.get(r)
	case 6:
		x.send(r, r.Request(pmixtest.Finalize))
	case 7:
		x.At(x.Now(), func() { x.exit(x.agents[x.node(r.slot)], uint32(r.slot), job.Status{}) })
	}
}

func (x *pmixClients) fence(r *pmixRank) {
	x.send(r, r.Request(pmixtest.Fence, pmixtest.Procs(r.Namespace, pmixtest.Wildcard), pmixtest.Attrs()))
}

// get asks for the next values, or goes on to the last fence.
func (x *pmixClients) get(r *pmixRank) {
	from, more := x.gets(int(r.Rank), r.got)
	if !more {
		r.step = 5
		x.fence(r)
		return
	}
	r.step, r.due = 4, from
	r.got++
	x.send(r, r.Request(pmixtest.Get, pmixtest.Text(r.Namespace), pmixtest.U32(uint32(from)), pmixtest.Attrs(),
		pmixtest.Text("k")))
}

func (x *pmixClients) run() {
	x.t.Helper()
	x.complete(x.t, 2*time.Hour)
	for i := range x.ranks {
		require.Equal(x.t, 7, x.ranks[i].step, "rank %d", i)
	}
}

// Over all trees: a fence is one message up and one down on each edge, as small as an empty
// barrier; each value that is asked for from anywhere crosses each edge once.
func TestPMIxFenceCarriesNothing(t *testing.T) {
	const nodes, ppn, size = 10, 3, 10 * 3
	for _, shape := range shapes {
		cfg := plan(nodes, ppn, shape)
		cfg.Job.Transport = eagerly // whatever it is: PMIx is lazy
		below := ranksBelowEdges(&cfg)
		x := pmixJob(t, cfg, everybody(size, ppn))
		x.run()
		crossed := 0
		for _, ranks := range below {
			if ranks < size { // otherwise nobody is on the other side
				crossed += size
			}
		}
		require.Equal(t, 2*nodes, x.Sent[rankwire.KindCollect], shape)
		require.Equal(t, 2*nodes, x.Sent[rankwire.KindRelease], shape)
		for _, fence := range []struct {
			kind  frame.Kind
			empty frame.Message
		}{
			{rankwire.KindCollect, rankwire.Collect{Op: 1}}, {rankwire.KindRelease, rankwire.Release{Op: 1}},
		} {
			require.Equal(t, uint64(2*nodes*len(frame.Append(nil, fence.empty))), x.Bytes[fence.kind], shape)
		}
		require.Equal(t, size*(nodes-1), x.taken)
		require.Equal(t, crossed, x.Sent[rankwire.KindAsk], shape)
		require.Equal(t, crossed, x.Sent[rankwire.KindAnswer], shape)
		require.Zero(t, x.Sent[rankwire.KindName]+x.Sent[wire.KindBulkFetch], shape)
	}
}

// neighbours gets the values of the ranks before and after in a ring.
func neighbours(size int) func(rank, i int) (int, bool) {
	return func(rank, i int) (int, bool) { return (rank + size + 2*i - 1) % size, i < 2 }
}

// At scale: Gets that leave a node equal the peers that its ranks touch there, the job's
// description does not grow with the job, and the root carries little.
func TestPMIxAtScale(t *testing.T) {
	const ppn = 16
	size := scale.clientNodes * ppn
	cfg := plan(scale.clientNodes, ppn, "kary:8")
	leaves, atLeaf := map[uint32]bool{}, 0
	cfg.Sent = func(edge uint32, up bool, m frame.Message) {
		switch m := m.(type) {
		case wire.Launch:
			leaves[edge] = m.Nodes.Len() == 1
		case rankwire.Ask:
			if up && leaves[edge] {
				atLeaf++
			}
		}
	}
	x := pmixJob(t, cfg, neighbours(size))
	x.run()
	count := 0
	for _, leaf := range leaves {
		if leaf {
			count++
		}
	}
	require.Equal(t, 2*size, x.taken)
	require.Equal(t, 2*count, atLeaf, "each node touches one rank before its own, and one after")
	if scale.whole() { // below, all ranks are described
		require.Less(t, x.given, 4000)
	}
	all, root := uint64(0), uint64(0)
	for _, k := range []frame.Kind{
		rankwire.KindCollect, rankwire.KindRelease, rankwire.KindAsk, rankwire.KindAnswer, rankwire.KindName,
	} {
		all, root = all+x.Bytes[k], root+x.RootBytes[k]
	}
	t.Logf("%d ranks: %.1f bytes per rank on all edges, %.2f %% of them on the root's; %d bytes of job information",
		size, float64(all)/float64(size), 100*float64(root)/float64(all), x.given)
	if scale.whole() { // else the root has many of the edges
		require.Less(t, 50*root, all)
	}
	require.Less(t, all, uint64(40*size))
}
