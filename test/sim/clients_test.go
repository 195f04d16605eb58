package sim

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/clients/pmi"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// clients is a job whose ranks speak PMI: production servers beside production
// cores. Each rank puts a value, waits for all, gets some, waits for all, and
// takes its leave.
type clients struct {
	*World
	callQueue
	t       *testing.T
	servers []*pmi.Server
	ranks   []client
	gets    func(rank, i int) (from int, more bool) // the i-th value that a rank gets
	wrong   func(rank, from int, words string)      // called if the reply to a get is not the value of rank from
	taken   int                                     // number of answered gets

	// leaves is when a rank leaves at the earliest, if there is no barrier at the
	// end. Then ranks read when the test says so.
	leaves func(rank int) time.Duration
}

type client struct{ at, got, from int }

// callQueue calls functions one after the other. A function that is added by a running function is called only after
// the running function has returned, because a server must not be called while it is still handling an event.
type callQueue struct {
	waiting []func()
	busy    bool
}

func (q *callQueue) add(f func()) { q.waiting = append(q.waiting, f) }

// runAll calls the queued functions until none is left. If a queued function calls runAll, the inner call returns at
// once, and the outer call runs the functions that were added.
func (q *callQueue) runAll() {
	if q.busy {
		return
	}
	q.busy = true
	for len(q.waiting) > 0 {
		next := q.waiting[0]
		q.waiting = q.waiting[1:]
		next()
	}
	q.busy = false
}

// The steps of a rank, named by what it waits for.
const (
	greeted = iota
	putting
	fenced
	resting
	reading
	closing
	leaving
	ended
)

const valueSize = 400

func valueOf(rank int) string {
	word := fmt.Sprintf("%08x", uint32(rank)*2654435761)
	return strings.Repeat(word, valueSize/len(word))
}

// pmiClients prepares a job of PMI clients. gets returns the rank whose value the i-th Get of a rank asks for, or false
// if there is none.
func pmiClients(t *testing.T, cfg Config, how job.Transport, gets func(rank, i int) (int, bool)) *clients {
	x := &clients{t: t, gets: gets, ranks: make([]client, cfg.Job.Size)}
	x.wrong = func(rank, from int, words string) {
		t.Fatalf("rank %d wants the value of %d and hears %q", rank, from, words)
	}
	cfg.Run, cfg.Job.Transport = time.Hour, how
	cfg.Job.Transport.Stats = true
	cfg.ToRank = func(node, rank uint32, m frame.Message) {
		x.obey(node, x.servers[node].Deliver(job.Slot(rank), m))
	}
	cfg.Give = func(node, fence uint32) []byte { return x.servers[node].Give(fence) }
	cfg.BulkFetched = func(node, fence uint32, values frame.Values) {
		x.obey(node, x.servers[node].BulkFetched(fence, values))
	}
	for range cfg.Job.Nodes {
		x.servers = append(x.servers, pmi.NewServer(cfg.Job, 0))
		x.servers[len(x.servers)-1].Carries = 0 // sizes of jobs here are those of tests
	}
	x.World = New(cfg)
	x.At(3*time.Second, func() {
		for rank := range x.ranks {
			x.sends(rank, "cmd=init pmi_version=1 pmi_subversion=1\n")
		}
	})
	return x
}

func (x *clients) node(rank int) uint32 { return uint32(x.cfg.Job.Layout.NodeOf(job.Slot(rank))) }

func (x *clients) sends(rank int, words string) {
	x.obey(x.node(rank), x.servers[x.node(rank)].Receive(job.Slot(rank), []byte(words)))
}

func (x *clients) obey(node uint32, effects []pmi.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case pmi.Words:
			x.add(func() { x.next(int(e.Rank), string(e.Bytes)) })
		case pmi.ClientFrame:
			x.Post(node, core.RankFrame{Rank: e.Rank, Msg: e.Msg})
		case pmi.BulkFetch:
			x.Post(node, core.BulkRequested{Fence: e.Fence})
		case pmi.Warn:
			x.t.Fatal(e.Text)
		}
	}
	x.runAll()
}

// next takes a rank's next step.
func (x *clients) next(rank int, words string) {
	c := &x.ranks[rank]
	switch c.at {
	case greeted:
		c.at = putting
		x.sends(rank, fmt.Sprintf("cmd=put kvsname=kvs_%s key=addr-%d value=%s\n", x.cfg.Job.ID, rank, valueOf(rank)))
	case putting:
		c.at = fenced
		x.sends(rank, "cmd=barrier_in\n")
	case reading:
		x.taken++
		if words != "cmd=get_result rc=0 msg=success value="+valueOf(c.from)+"\n" {
			x.wrong(rank, c.from, words)
		}
		fallthrough
	case fenced:
		if c.at == fenced && x.leaves != nil {
			c.at = resting
			return
		}
		x.read(rank)
	case closing:
		c.at = leaving
		x.sends(rank, "cmd=finalize\n")
	case leaving:
		c.at = ended
		x.At(x.Now(), func() { x.exit(x.agents[x.node(rank)], uint32(rank), job.Status{}) })
	}
}

// read lets a rank get its next value, or end.
func (x *clients) read(rank int) {
	c := &x.ranks[rank]
	from, more := x.gets(rank, c.got)
	switch {
	case more:
		c.at, c.from = reading, from
		c.got++
		x.sends(rank, "cmd=get kvsname=kvs_"+x.cfg.Job.ID+" key=addr-"+strconv.Itoa(from)+"\n")
	case x.leaves != nil:
		c.at = leaving
		x.At(max(x.Now(), x.leaves(rank)), func() { x.sends(rank, "cmd=finalize\n") })
	default:
		c.at = closing
		x.sends(rank, "cmd=barrier_in\n")
	}
}

// run runs the job to its end.
func (x *clients) run() {
	x.t.Helper()
	x.complete(x.t, 2*time.Hour)
	for rank, c := range x.ranks {
		require.Equal(x.t, ended, c.at, "rank %d", rank)
	}
}

// kinds are the messages that PMI costs on the tree.
var kinds = []frame.Kind{rankwire.KindCollect, rankwire.KindRelease, rankwire.KindAsk, rankwire.KindAnswer,
	wire.KindBulkFetch, wire.KindBulkValues}

// bytes is what PMI costs on all edges, and on the root's.
func (x *clients) bytes() (all, root uint64) {
	for _, k := range kinds {
		all, root = all+x.Bytes[k], root+x.RootBytes[k]
	}
	return all, root
}

// everybody gets the value of each other rank, once for each node.
func everybody(size, ppn int) func(rank, i int) (int, bool) {
	return func(rank, i int) (int, bool) {
		from := (rank/ppn*ppn + ppn + rank%ppn + i*ppn) % size // one rank of each other node
		return from, i < size/ppn-1
	}
}

// doubling gets what is 1, 2, 4 and so on ahead: log2 n values.
func doubling(size int) func(rank, i int) (int, bool) {
	return func(rank, i int) (int, bool) { return (rank + 1<<i) % size, 1<<i < size }
}
