package lookup

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/core/subtree/subtreetest"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/fabric"
	"ibrun/internal/job"
)

var up = Neighbour(subtree.Up)

// agent is that of subtreetest.
func agent(root bool) (*subtree.Subtree, *Lookups) {
	s := subtreetest.Agent(root)
	l := New(s)
	return s, &l
}

func tuple(host byte, port uint16) fabric.Tuple {
	return fabric.Ethernet(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, host}), port))
}

// block is a node's, with ports of its ranks; 0: it has not published.
func block(node uint32, epoch uint16, ports ...uint32) []byte {
	b := fabric.Block{Node: node, First: 2 * node, Base: tuple(byte(node), 0), Ranks: make([]fabric.Entry, len(ports))}
	b.Base.Num = 0
	for i, port := range ports {
		if port > 0 {
			b.Ranks[i] = fabric.Entry{Epoch: epoch, Num: port}
		}
	}
	return b.Append(nil)
}

func send(to Party, m frame.Message) Effect { return Effect{Do: Send, To: to, Msg: m} }

func about(rank job.Slot) rankwire.Ask { return rankwire.Ask{Rank: rank} }

func found(rank job.Slot, value []byte) rankwire.Answer {
	return rankwire.Answer{Rank: rank, Value: value}
}

// Questions about a child that has ended are answered, those in flight in the order of their
// subjects and later ones at once; a question from above never goes back up.
func TestNobodyToAsk(t *testing.T) {
	for exited, what := range map[bool]rankwire.Answered{false: rankwire.Failed, true: rankwire.Exited} {
		s, l := agent(false)
		value := rankwire.Ask{Rank: 7, Key: "k"}
		l.Ask(0, Rank(5), value)
		l.Ask(0, Rank(4), about(6))
		require.Equal(t, uint64(1), l.Away)
		require.Equal(t, uint64(1), l.Counts.Asked, "questions about values are not counted")
		s.End(0, exited)
		require.Equal(t, []Effect{
			send(Rank(4), rankwire.Answer{Rank: 6, What: what}),
			send(Rank(5), rankwire.Answer{Rank: 7, Key: "k", What: what}),
		}, l.ChildEnded(0))
		require.Empty(t, l.ChildEnded(0))
		require.Equal(t, []Effect{send(Rank(4), rankwire.Answer{Rank: 7, What: what})}, l.Ask(0, Rank(4), about(7)))
		require.Equal(t, []Effect{send(up, rankwire.Answer{What: rankwire.Failed})}, l.Ask(0, up, about(0)))
	}
	_, l := agent(true)
	require.Equal(t, []Effect{send(Neighbour(0), rankwire.Answer{Rank: 10, What: rankwire.Failed})},
		l.Ask(0, Neighbour(0), about(10)), "its node was never started")
}

// A fresh question is not answered from the cache, and its answer is kept like any other.
func TestFreshQuestions(t *testing.T) {
	_, l := agent(false)
	b, fresh := block(3, 1, 7, 8), rankwire.Ask{Rank: 6, Fresh: true}
	l.Ask(0, Rank(4), about(6))
	l.Answered(found(6, b), false)
	require.Equal(t, []Effect{send(Neighbour(0), fresh)}, l.Ask(0, Rank(4), fresh))
	newer := block(3, 2, 9, 8)
	answer := rankwire.Answer{Rank: 6, Fresh: true, Value: newer}
	require.Equal(t, []Effect{send(Rank(4), answer)}, l.Answered(answer, false))
	require.Equal(t, []Effect{send(Rank(5), found(6, newer))}, l.Ask(0, Rank(5), about(6)))

	l.Ask(0, Rank(4), rankwire.Ask{Rank: 6, Key: "k", Fresh: true})
	l.Answered(rankwire.Answer{Rank: 6, Key: "k", Fresh: true, Value: []byte("v")}, false)
	value := rankwire.Answer{Rank: 6, Key: "k", Value: []byte("v")}
	require.Equal(t, []Effect{send(up, value)}, l.Ask(0, up, rankwire.Ask{Rank: 6, Key: "k"}))
}

// A neighbour answers what it was asked, with the block of the node and the rank in it.
func TestLie(t *testing.T) {
	_, l := agent(false)
	l.Ask(0, Rank(4), about(6))
	l.Ask(0, Rank(4), rankwire.Ask{Rank: 8, Key: "k"})
	other := fabric.Block{Node: 4, First: 6, Base: tuple(3, 0), Ranks: []fabric.Entry{{Epoch: 1, Num: 7}, {}}}
	for _, c := range []struct {
		from subtree.Link
		m    rankwire.Answer
		want string
	}{
		{0, found(6, block(3, 1, 7, 8)), ""},
		{0, found(7, block(3, 1, 7, 8)), ""},
		{0, rankwire.Answer{Rank: 6, What: rankwire.Exited}, ""},
		{1, rankwire.Answer{Rank: 8, Key: "k", Value: []byte("any")}, ""},
		{0, found(12, nil), "about no rank"},
		{1, found(6, block(3, 1, 7, 8)), "to no question"},
		{1, rankwire.Answer{Rank: 8, Key: "l"}, "to no question"},
		{0, rankwire.Answer{Rank: 6, Fresh: true}, "to no question"},
		{0, found(6, block(4, 1, 7, 8)), "without the rank's address"},
		{0, found(6, block(3, 1, 0, 8)), "without the rank's address"},
		{0, found(6, block(3, 1, 7)), "without the rank's address"},
		{0, found(6, other.Append(nil)), "without the rank's address"},
		{0, found(6, []byte("short")), "without the rank's address"},
	} {
		require.Equal(t, c.want, l.Lie(c.from, c.m), "%+v", c)
	}
}

const ms = time.Millisecond
