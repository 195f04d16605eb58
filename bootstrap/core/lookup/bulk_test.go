package lookup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
)

// bulkBelow returns the subtree of an agent with the given number of children.
func bulkBelow(root bool, children int) *subtree.Subtree {
	s := &subtree.Subtree{Root: root}
	for range children {
		s.Adopt()
	}
	return s
}

func callBulk(to subtree.Link, fence uint32) BulkEffect {
	return BulkEffect{Do: CallBulk, To: to, Fence: fence}
}

func sendBulk(to subtree.Link, fence uint32, values ...string) BulkEffect {
	return BulkEffect{Do: SendBulk, To: to, Fence: fence, Values: listOf(values...)}
}

func listOf(values ...string) (l frame.Values) {
	for _, v := range values {
		l.Add(frame.NewValues([]byte(v)))
	}
	return l
}

// Values delivers the values of a fence to this node, which has requested them, and sends none to the children. Request
// sends them to a child that asks for them later.
func TestValuesAreHandedOutOnce(t *testing.T) {
	f, all := NewBulk(bulkBelow(false, 2)), listOf("everything")
	f.Request(subtree.Up, 2)
	require.Equal(t, []BulkEffect{{Do: DeliverBulk, Fence: 2, Values: all}}, f.Values(2, all))
	require.Equal(t, []BulkEffect{{Do: SendBulk, To: 0, Fence: 2, Values: all}}, f.Request(0, 2))
}

// A child that leaves while values are gathered gives nothing; a late request gets the values that
// are there.
func TestFetchGoesOnWithoutAChild(t *testing.T) {
	s := bulkBelow(true, 3)
	f := NewBulk(s)
	require.Equal(t, []BulkEffect{callBulk(0, 2), callBulk(1, 2), callBulk(2, 2)}, f.Request(0, 2))
	require.Empty(t, f.Request(0, 2), "once")
	require.Empty(t, f.Gave(0, 2, listOf("a")))
	require.Empty(t, f.Gave(2, 2, listOf()))
	require.Empty(t, f.ChildEnded(), "no child has")
	s.End(1, false)
	require.Equal(t, []BulkEffect{sendBulk(0, 2, "a")}, f.ChildEnded())
	require.Empty(t, f.ChildEnded(), "once")
	require.Equal(t, []BulkEffect{sendBulk(2, 2, "a")}, f.Request(2, 1))
	require.Equal(t, uint64(1), f.Started)
}

// What is too much for the tree stays where it is, and the values come without it.
func TestFetchOfTooMuch(t *testing.T) {
	f := NewBulk(bulkBelow(false, 1))
	f.Call(1)
	require.Empty(t, f.ReadDone(1, []byte{1}))
	most := frame.NewValues(make([]byte, rankwire.MaxGather-4)) // all that a frame may have, with its length
	require.Equal(t, []BulkEffect{sendBulk(subtree.Up, 1)}, f.Gave(0, 1, most))
}

// A child cannot give what nobody called for, nor twice.
func TestBulkRefuses(t *testing.T) {
	f := NewBulk(bulkBelow(false, 2))
	require.True(t, f.Refuses(0, 1))
	f.Call(2)
	require.False(t, f.Refuses(0, 1), "an older call may be answered yet")
	require.False(t, f.Refuses(0, 2))
	f.Gave(0, 2, listOf())
	require.True(t, f.Refuses(0, 2))
	require.False(t, f.Refuses(1, 2), "the other child")
	require.True(t, f.Refuses(1, 3))
}

// What was forgotten is not given to those that ask later.
func TestBulkForget(t *testing.T) {
	f := NewBulk(bulkBelow(true, 2))
	f.Request(0, 1)
	f.Gave(0, 1, listOf("a"))
	f.Gave(1, 1, listOf("b"))
	f.Forget()
	require.Equal(t, []BulkEffect{{Do: SendBulk, To: 1, Fence: 1}}, f.Request(1, 1))
}
