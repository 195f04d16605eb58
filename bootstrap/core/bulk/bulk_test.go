package bulk

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
)

const up = subtree.Up

// below is a subtree with some children.
func below(root bool, children int) *subtree.Subtree {
	s := &subtree.Subtree{Root: root}
	for range children {
		s.Adopt()
	}
	return s
}

func request(fence uint32) Effect               { return Effect{Do: Request, To: up, Fence: fence} }
func call(to subtree.Link, fence uint32) Effect { return Effect{Do: Call, To: to, Fence: fence} }

func send(to subtree.Link, fence uint32, values ...string) Effect {
	return Effect{Do: Send, To: to, Fence: fence, Values: list(values...)}
}

func list(values ...string) (l frame.Values) {
	for _, v := range values {
		l.Add(frame.NewValues([]byte(v)))
	}
	return l
}

// Values delivers the values of a fence to this node, which has requested them, and sends none to the children. Request
// sends them to a child that asks for them later.
func TestValuesAreHandedOutOnce(t *testing.T) {
	f, all := New(below(false, 2)), list("everything")
	f.Request(up, 2)
	require.Equal(t, []Effect{{Do: Deliver, Fence: 2, Values: all}}, f.Values(2, all))
	require.Equal(t, []Effect{{Do: Send, To: 0, Fence: 2, Values: all}}, f.Request(0, 2))
}

// A child that leaves while values are gathered gives nothing; a late request gets the values that
// are there.
func TestFetchGoesOnWithoutAChild(t *testing.T) {
	s := below(true, 3)
	f := New(s)
	require.Equal(t, []Effect{call(0, 2), call(1, 2), call(2, 2)}, f.Request(0, 2))
	require.Empty(t, f.Request(0, 2), "once")
	require.Empty(t, f.Gave(0, 2, list("a")))
	require.Empty(t, f.Gave(2, 2, list()))
	require.Empty(t, f.ChildEnded(), "no child has")
	s.End(1, false)
	require.Equal(t, []Effect{send(0, 2, "a")}, f.ChildEnded())
	require.Empty(t, f.ChildEnded(), "once")
	require.Equal(t, []Effect{send(2, 2, "a")}, f.Request(2, 1))
	require.Equal(t, uint64(1), f.Started)
}

// What is too much for the tree stays where it is, and the values come without it.
func TestFetchOfTooMuch(t *testing.T) {
	f := New(below(false, 1))
	f.Call(1)
	require.Empty(t, f.ReadDone(1, []byte{1}))
	most := frame.NewValues(make([]byte, rankwire.MaxGather-4)) // all that a frame may have, with its length
	require.Equal(t, []Effect{send(up, 1)}, f.Gave(0, 1, most))
}

// A child cannot give what nobody called for, nor twice.
func TestRefuses(t *testing.T) {
	f := New(below(false, 2))
	require.True(t, f.Refuses(0, 1))
	f.Call(2)
	require.False(t, f.Refuses(0, 1), "an older call may be answered yet")
	require.False(t, f.Refuses(0, 2))
	f.Gave(0, 2, list())
	require.True(t, f.Refuses(0, 2))
	require.False(t, f.Refuses(1, 2), "the other child")
	require.True(t, f.Refuses(1, 3))
}

// What was forgotten is not given to those that ask later.
func TestForget(t *testing.T) {
	f := New(below(true, 2))
	f.Request(0, 1)
	f.Gave(0, 1, list("a"))
	f.Gave(1, 1, list("b"))
	f.Forget()
	require.Equal(t, []Effect{{Do: Send, To: 1, Fence: 1}}, f.Request(1, 1))
}
