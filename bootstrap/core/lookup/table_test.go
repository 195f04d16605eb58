package lookup

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
)

func eager(root bool) (*subtree.Subtree, *Lookups) {
	s, l := agent(root)
	l.Open(job.Transport{Eager: true})
	return s, l
}

func values(blocks ...[]byte) frame.Values { return frame.NewValues(blocks...) }

// The blocks of a subtree are sent up once, when its ranks have published, all children have reported or ended, and no
// child will be added. The table is sent down to the children that have reported.
func TestTableGoesUpAndDown(t *testing.T) {
	s, l := eager(false)
	s.Launched = false
	require.Empty(t, l.Publish(0, 4, tuple(2, 7)))
	require.Empty(t, l.Publish(0, 5, tuple(2, 8)))
	require.Empty(t, l.TableBelow(0, 0, values(block(3, 1, 1, 2))))
	require.Empty(t, l.NoTableBelow(0, 0), "it has reported")
	s.Launched = true
	require.Empty(t, l.Launched(0))
	s.Launched = false
	require.Empty(t, l.NoTableBelow(0, 1))
	s.Launched = true
	out := l.Launched(0)
	require.Len(t, out, 1)
	require.Equal(t, Table, out[0].Do)
	require.Equal(t, up, out[0].To)
	require.Equal(t, [][]byte{block(3, 1, 1, 2), block(2, 1, 7, 8)}, slices.Collect(out[0].Blocks.All()))
	require.Empty(t, l.Launched(0), "once")
	require.NotZero(t, l.AddressBytes)

	require.True(t, l.TableAwaited())
	all := values(block(0, 1, 5, 6), block(3, 1, 1, 2), []byte("none"), block(7, 1, 1, 1))
	require.Equal(t, []Effect{{Do: Table, To: Neighbour(0), Blocks: all}}, l.Table(0, all))
	require.False(t, l.TableAwaited())
	require.Equal(t, []Effect{send(Rank(4), found(1, block(0, 1, 5, 6)))}, l.Ask(0, Rank(4), about(1)))
	require.Equal(t, []Effect{send(up, about(2))}, l.Ask(0, Rank(4), about(2)), "it is not in the table")
	require.Nil(t, l.cache.block(7), "there is no such node")
}

// A table that does not come in time is not waited for; nor is it for questions that it cannot
// answer.
func TestTableThatIsLate(t *testing.T) {
	_, l := eager(false)
	fresh := about(0)
	fresh.Fresh = true
	require.Len(t, l.Ask(0, Rank(4), fresh), 1)
	require.Equal(t, []Effect{{Do: Wake, At: tablePatience + ms}}, l.Ask(ms, Rank(4), about(1)))
	require.Empty(t, l.Ask(2*ms, Rank(5), about(1)))
	require.Equal(t, []Effect{{Do: Wake, At: tablePatience + ms}}, l.Due(tablePatience))
	require.Equal(t, []Effect{send(up, about(1))}, l.Due(tablePatience+ms))
	require.Equal(t, []Effect{send(up, about(2))}, l.Ask(tablePatience+2*ms, Rank(4), about(2)))
}

// A table that is too much for a frame goes without blocks.
func TestTableTooLarge(t *testing.T) {
	_, l := eager(true)
	l.TableBelow(0, 0, values(make([]byte, 32<<20)))
	out := l.TableBelow(0, 1, values(make([]byte, 32<<20)))
	require.Equal(t, []Effect{{Do: Table, To: Neighbour(0)}, {Do: Table, To: Neighbour(1)}}, out)
}

// A child's table has blocks of its own nodes, and comes once, in eager mode.
func TestTableLie(t *testing.T) {
	_, l := agent(false)
	mine := func(node job.NodeIndex) bool { return node == 3 }
	require.Equal(t, "that nobody wants", l.TableLie(0, values(), 1, mine))
	l.Open(job.Transport{Eager: true})
	require.Empty(t, l.TableLie(0, values(), 1, mine))
	require.Empty(t, l.TableLie(0, values(block(3, 1, 0, 0)), 1, mine))
	require.Equal(t, "of more nodes than it has", l.TableLie(0, values(block(3, 1, 0, 0), block(3, 1, 0, 0)), 1, mine))
	require.Equal(t, "of another's node", l.TableLie(0, values(block(4, 1, 0, 0)), 1, mine))
	require.Equal(t, "of another's node", l.TableLie(0, values(block(3, 1, 0)), 1, mine))
	require.Equal(t, "of another's node", l.TableLie(0, values([]byte("short")), 1, mine))
	l.TableBelow(0, 0, values())
	require.Equal(t, "that nobody wants", l.TableLie(0, values(), 1, mine))
	require.Empty(t, l.TableLie(1, values(), 1, func(job.NodeIndex) bool { return true }))
}
