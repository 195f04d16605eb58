package sim

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/clients/charm"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// charmRanks is a job of programs of Charm++: production servers beside production cores. Each rank
// says initnode, waits in one barrier and says ending.
type charmRanks struct {
	*World
	callQueue
	t       *testing.T
	servers []*charm.Server
	tables  int // programs that got the table
}

func charmJob(t *testing.T, cfg Config) *charmRanks {
	x := &charmRanks{t: t}
	cfg.Run = time.Hour
	cfg.ToRank = func(node, rank uint32, m frame.Message) {
		x.obey(node, x.servers[node].Deliver(job.Slot(rank), m))
	}
	for i := range job.NodeIndex(cfg.Job.Nodes) {
		first, count := cfg.Job.Layout.SlotsOn(i)
		s := charm.NewServer(cfg.Job, job.Node{Host: fmt.Sprintf("n%d", i), First: first, Ranks: count}, 0)
		for slot := first; slot < first+job.Slot(count); slot++ {
			s.Expect(slot, 1, true, false)
		}
		x.servers = append(x.servers, s)
	}
	x.World = New(cfg)
	x.At(3*time.Second, func() {
		for slot := range job.Slot(cfg.Job.Size) {
			b := make([]byte, 40)
			binary.BigEndian.PutUint32(b, uint32(cfg.Job.Layout.Rank(slot)))
			binary.BigEndian.PutUint32(b[28:], 4000)
			x.sends(slot, charm.InitNode, b...)
		}
	})
	return x
}

func (x *charmRanks) sends(slot job.Slot, kind string, data ...byte) {
	node := uint32(x.cfg.Job.Layout.NodeOf(slot))
	x.obey(node, x.servers[node].Receive(uint32(slot)+1, charm.Append(nil, kind, len(data), data...)))
}

func (x *charmRanks) obey(node uint32, effects []charm.Effect) {
	for _, e := range effects {
		x.add(func() { x.effect(node, e) })
	}
	x.runAll()
}

func (x *charmRanks) effect(node uint32, e charm.Effect) {
	switch e := e.(type) {
	case charm.ClientFrame:
		x.Post(node, core.RankFrame{Rank: e.Rank, Msg: e.Msg})
	case charm.Mute:
		x.obey(node, x.servers[node].Muted(e.Rank))
	case charm.Bytes:
		switch slot := job.Slot(e.Call - 1); {
		case len(e.Bytes) < 16:
		case strings.HasPrefix(string(e.Bytes[4:]), charm.NodeTab):
			x.tables++
			x.sends(slot, charm.Barrier)
		case strings.HasPrefix(string(e.Bytes[4:]), charm.Barrier):
			x.sends(slot, charm.Ending, '0', 0)
		}
	case charm.HangUp:
		slot := e.Call - 1
		x.At(x.Now(), func() { x.exit(x.agents[node], slot, job.Status{}) })
	case charm.Warn:
		x.t.Fatal(e.Text)
	}
}

// Over all trees a job of Charm++ starts by one message up and one down on each edge, and so does
// each barrier and its end. A node's part of the table crosses each edge once: 17 bytes for four
// processes, and what a message has anyway.
func TestCharmStart(t *testing.T) {
	const nodes, ppn = 16, 4
	for _, shape := range shapes {
		x := charmJob(t, plan(nodes, ppn, shape))
		x.complete(t, 2*time.Hour)
		require.Equal(t, nodes*ppn, x.tables)
		require.Equal(t, 3*nodes, x.Sent[rankwire.KindCollect], shape)
		require.Equal(t, 3*nodes, x.Sent[rankwire.KindRelease], shape)
		require.Zero(t, x.Sent[rankwire.KindAsk]+x.Sent[rankwire.KindName], shape)
		part := uint64(5 + ppn*3 + 8)
		require.Less(t, x.Bytes[rankwire.KindRelease], nodes*(nodes*part+3*32), shape)
	}
}
