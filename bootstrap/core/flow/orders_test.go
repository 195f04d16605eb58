package flow

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

var failed = job.Status{Kind: job.Exited, Code: 3}

// withOrder returns the Tools of an agent that is not the root, with the open order 1. own are the numbers of the
// daemons on its node, and to are the children that have received the order. The agent may send credit bytes of output.
func withOrder(credit int, own []uint32, to ...receiver) *Tools {
	t := New(&subtree.Subtree{})
	o := &order{id: 1, credit: credit, host: "h", own: own}
	o.sum.ends.Daemons = uint32(len(own))
	for _, c := range to {
		c.credit = childCredit
		o.children = append(o.children, c)
	}
	t.newest, t.open = 1, []*order{o}
	return &t
}

// does returns one string for each effect: its type, the link and the message of a Send, or the time of a Wake.
func does(effects []subtree.Effect) (all []string) {
	for _, e := range effects {
		switch e := e.(type) {
		case subtree.Send:
			all = append(all, fmt.Sprintf("%d <- %s", e.To, wire.Vocabulary.Name(e.Msg.Kind())))
		case subtree.Wake:
			all = append(all, fmt.Sprintf("wake %v", e.At))
		default:
			all = append(all, fmt.Sprintf("%T", e))
		}
	}
	return all
}

// sent returns the messages of type M in the Send effects among effects.
func sent[M frame.Message](effects []subtree.Effect) (all []M) {
	for _, e := range effects {
		if s, ok := e.(subtree.Send); ok {
			if m, ok := s.Msg.(M); ok {
				all = append(all, m)
			}
		}
	}
	return all
}

func output(number uint32, n int) wire.DaemonOutput {
	return wire.DaemonOutput{ID: 1, Number: number, Stream: 1, Data: make([]byte, n)}
}

func anyDaemon(uint32) bool { return true }

// If more daemons fail than a message can list, those with the smallest numbers are listed and the others are counted.
// The order in which the failures come and are merged makes no difference.
func TestFailuresAreBounded(t *testing.T) {
	const most = rankwire.MaxFailedDaemons
	var own []uint32
	for i := range uint32(most + 10) {
		own = append(own, i)
	}
	below := withOrder(callerCredit, own)
	var ends []wire.DaemonsEnded
	for i := len(own) - 1; i >= 0; i-- {
		require.Empty(t, ends)
		ends = sent[wire.DaemonsEnded](below.Step(Place{}, DaemonExited{ID: 1, Number: uint32(i), Status: failed}))
	}
	require.Equal(t, most, ends[0].Failed.Len())
	require.Equal(t, uint32(10), ends[0].More)
	d := withOrder(callerCredit, nil, receiver{to: 0, most: 1}, receiver{to: 1, most: 5}, receiver{to: 2, most: 2})
	require.Empty(t, d.FromChild(0, ends[0]))
	require.Empty(t, d.ChildEnded(2, true))
	ends = sent[wire.DaemonsEnded](d.ChildEnded(1, false))
	require.Equal(t, uint32(most+10), ends[0].Daemons)
	require.Equal(t, [4]uint32{10, 5, 2, 125}, [4]uint32{ends[0].More, ends[0].Lost, ends[0].Over, uint32(ends[0].Code)})
	number := uint32(0)
	for f := range ends[0].Failed.All() {
		require.Equal(t, number, f.Number)
		number++
	}
	require.Zero(t, d.Open()+below.Open())
}

// An agent buffers no more output than it has granted credit for, and grants no new credit for output that it cannot
// pass on. Buffered output is passed on in order as soon as credit comes.
func TestCredit(t *testing.T) {
	d := withOrder(100, []uint32{7}, receiver{to: 0, most: 1})
	require.Len(t, d.FromChild(0, output(3, 90)), 1, "less than a quarter is not given back")
	require.Empty(t, d.FromChild(0, output(3, 30<<10)))
	require.Empty(t, d.Step(Place{}, DaemonOutput{output(7, 5)}), "behind what came before")
	require.Equal(t, "", d.ChildLie(0, output(3, childCredit-90-30<<10), anyDaemon))
	require.Equal(t, "beyond its credit", d.ChildLie(0, output(3, childCredit-89-30<<10), anyDaemon))
	effects := d.FromParent(Place{}, wire.DaemonGrant{ID: 1, N: 30 << 10})
	require.Equal(t, []string{"-1 <- DaemonOutput", "0 <- DaemonGrant", "-1 <- DaemonOutput", "flow.ResumeDaemon"}, does(effects))
	require.Equal(t, uint32(90+30<<10), sent[wire.DaemonGrant](effects)[0].N)
}

// When the job ends, an agent passes on output for 1 s more, and waits 4 s for daemons to die.
func TestClose(t *testing.T) {
	d := withOrder(0, []uint32{7})
	require.Empty(t, d.Step(Place{}, DaemonOutput{output(7, 5)}))
	require.Equal(t, []string{"flow.KillDaemons", "wake 1s"}, does(d.Close(Place{})))
	require.Empty(t, sent[wire.DaemonsEnded](d.Due(time.Second)))
	ends := sent[wire.DaemonsEnded](d.Due(4 * time.Second))
	require.Equal(t, uint64(5), ends[0].Dropped)
	require.Equal(t, uint8(125), ends[0].Code)
	require.Zero(t, d.Open())
}

// Input in transit never exceeds InputCredit. The caller gets all credit back, whether the daemon reads its input or
// stops reading. A child's message is rejected if it returns credit for more input than was sent to the child.
func TestInput(t *testing.T) {
	relay, node := withOrder(callerCredit, nil, receiver{to: 0, most: 1}), withOrder(callerCredit, []uint32{4})
	piece := wire.DaemonInput{ID: 1, Stdin: wire.Stdin{Data: make([]byte, InputCredit/4)}}
	one := wire.DaemonInput{ID: 1, Stdin: wire.Stdin{Data: make([]byte, 1)}}
	require.Empty(t, node.FromParent(Place{}, piece), "it does not read")
	require.NotEmpty(t, node.ParentLie(one))
	relay.open[0].input.reads, node.open[0].input.reads = true, true
	room := 0
	taken := func(effects []subtree.Effect) {
		for _, m := range sent[wire.DaemonRoom](effects) {
			require.Empty(t, relay.ChildLie(0, m, anyDaemon))
			for _, up := range sent[wire.DaemonRoom](relay.FromChild(0, m)) {
				room += int(up.N)
			}
		}
	}
	feed := func() {
		require.Empty(t, relay.ParentLie(piece))
		down := sent[wire.DaemonInput](relay.FromParent(Place{}, piece))
		require.Len(t, down, 1)
		taken(node.FromParent(Place{}, down[0]))
	}
	for range 4 {
		feed()
	}
	require.NotEmpty(t, relay.ParentLie(one), "beyond the credit")
	require.NotEmpty(t, node.ParentLie(one), "beyond the credit")
	taken(node.Step(Place{}, DaemonInputRead{1, InputCredit / 4}))
	require.Equal(t, InputCredit/4, room)
	taken(node.Step(Place{}, DaemonInputClosed{1}))
	require.Equal(t, InputCredit, room, "one that reads no more holds nobody up")
	require.NotEmpty(t, relay.ChildLie(0, wire.DaemonRoom{ID: 1, N: 1}, anyDaemon))
	feed()
	require.Equal(t, InputCredit+InputCredit/4, room)
	require.Empty(t, node.Step(Place{}, DaemonInputRead{1, 7}), "of what was given back already")
	require.NotEmpty(t, relay.ChildLie(1, wire.DaemonRoom{ID: 1, N: 1}, anyDaemon), "of another child")
	require.NotEmpty(t, relay.ChildLie(0, wire.DaemonRoom{ID: 2, N: 1}, anyDaemon), "of what was not ordered")
}
