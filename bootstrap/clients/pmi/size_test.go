package pmi

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// node is the server and the core of the first node of a job of two, without
// anything around them. Answers of the core go to the server, until what is left
// would leave the node.
type node struct {
	server  *Server
	core    *core.Core
	answers int // to clients
}

func newNode(t *testing.T, how job.Transport, ranks uint32) *node {
	nodes := job.NewNodes(0, []job.Run{{Prefix: "n", Width: 1, Lo: 1, Count: 2, Ranks: ranks}})
	j := &job.Job{ID: "j", Size: 2 * ranks, Nodes: 2, Layout: nodes.Layout(), Transport: how, Programs: []job.Program{{Count: 2 * ranks}}}
	j.Launch.Tree = "flat"
	n := &node{server: NewServer(j, 0), core: core.New(core.Config{Here: -1, Join: Join})}
	n.step(core.Frame{From: core.Up, Msg: wire.Launch{Job: j, Nodes: nodes.Slice(0, 1), Level: 1}})
	n.step(core.ForkDone{})
	for rank := range ranks {
		n.speak(rank, "cmd=init pmi_version=1 pmi_subversion=1\n")
	}
	require.Equal(t, int(ranks), n.answers)
	return n
}

func (n *node) step(ev core.Event) {
	var sends []core.SendRank
	for _, e := range n.core.Step(0, ev) {
		if send, ok := e.(core.SendRank); ok {
			sends = append(sends, send)
		}
	}
	for _, send := range sends {
		n.obey(n.server.Deliver(send.Rank, send.Msg))
	}
}

func (n *node) obey(effects []Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case Words:
			n.answers++
		case ClientFrame:
			n.step(core.RankFrame{Rank: e.Rank, Msg: e.Msg})
		}
	}
}

func (n *node) speak(rank uint32, words string) {
	n.obey(n.server.Receive(job.Slot(rank), []byte(words)))
}

// putAll lets the first rank put so many keys, half of them with its number.
func (n *node) putAll(keys int) {
	for i := range keys {
		n.speak(0, "cmd=put kvsname=kvs_j key="+keyOf(i)+" value=0123456789abcdef\n")
	}
}

func keyOf(i int) string {
	if i%2 == 0 {
		return "k-0-" + strconv.Itoa(i)
	}
	return "key" + strconv.Itoa(i)
}

// fence lets all ranks of this node and of the other one pass a fence, and
// brings back what the other nodes are sent.
func (n *node) fence(ranks uint32) {
	var up rankwire.Collect
	for rank := range ranks {
		for _, e := range n.server.Receive(job.Slot(rank), []byte("cmd=barrier_in\n")) {
			for _, e := range n.core.Step(0, core.RankFrame{Rank: job.Slot(rank), Msg: e.(ClientFrame).Msg}) {
				if send, ok := e.(core.Send); ok {
					up, _ = send.Msg.(rankwire.Collect)
				}
			}
		}
	}
	m, err := wire.Vocabulary.Parse(frame.Append(nil, rankwire.Release(up))[4:])
	if err != nil {
		panic(err)
	}
	n.step(core.Frame{From: core.Up, Msg: m})
}

// heap is what is alive, and what was ever allocated, in bytes.
func heap() (alive, ever uint64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, m.TotalAlloc
}

// Sixteen times the keys cost sixteen times the bytes, in put, fence and get,
// not more: nothing is copied again and again.
func TestManyKeysCostTheSameEach(t *testing.T) {
	for name, how := range policies {
		each := func(keys int) (alive, ever float64) {
			n := newNode(t, how, 1)
			n.server.Carries = 0 // else what is done depends on the number of keys
			alive0, ever0 := heap()
			n.putAll(keys)
			n.fence(1)
			for i := range keys {
				n.speak(0, "cmd=get kvsname=kvs_j key="+keyOf(i)+"\n")
			}
			require.Equal(t, 1+keys+1+keys, n.answers)
			alive1, ever1 := heap()
			runtime.KeepAlive(n)
			return float64(alive1-alive0) / float64(keys), float64(ever1-ever0) / float64(keys)
		}
		fewAlive, few := each(2_000)
		manyAlive, many := each(32_000)
		t.Logf("%s: %.0f bytes a key kept and %.0f allocated at 2,000 keys, %.0f and %.0f at 32,000", name, fewAlive, few, manyAlive, many)
		require.Less(t, many, 1.5*few)
		require.Less(t, manyAlive, 1.5*fewAlive)
	}
}

// 64 ranks with 16 kB of values each, over PMI's limit of 1,024 bytes a value and
// with one value of 16 KiB: what server and core keep of it is within 32 MiB, and
// within some copies.
func TestMemoryOfANode(t *testing.T) {
	const ranks, size = 64, 16 << 10
	for name, how := range policies {
		for _, pieces := range []int{1, 16} {
			n := newNode(t, how, ranks)
			before, _ := heap()
			for rank := range uint32(ranks) {
				for i := range pieces {
					n.server.put(n.server.clients[job.Slot(rank)], fmt.Sprintf("big-%d-%d", rank, i), strings.Repeat("v", size/pieces))
				}
				n.obey(n.server.done())
			}
			n.fence(ranks)
			after, _ := heap()
			runtime.KeepAlive(n)
			t.Logf("%s, %d values a rank: %.2f MiB of %d MiB of values", name, pieces, float64(after-before)/(1<<20), ranks*size>>20)
			require.Less(t, after-before, uint64(32<<20))
			require.Less(t, after-before, uint64(4*ranks*size))
		}
	}
}
