package pmi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Callers are nobody until the owner of the numbers says who they are, and
// then they are their rank; a second one for a rank is refused.
func TestCalls(t *testing.T) {
	c := newCluster(t, 0, job.Share{Nodes: 1, Ranks: 3})
	h := c.servers[0]
	require.Empty(t, h.ReceiveCall(1, []byte("cmd=initack ")))
	require.Equal(t, []Effect{Bind{1, 77}}, h.ReceiveCall(1, []byte("pmiid=77\n")))
	require.False(t, h.IsClient(2))
	words := []byte("cmd=initack rc=0\ncmd=set size=3\ncmd=set rank=2\ncmd=set debug=0\n")
	require.Equal(t, []Effect{FirstClient{}, Words{2, 1, words}}, h.Bound(1, 2, ""))
	require.True(t, h.IsClient(2))
	h.ReceiveCall(1, []byte("cmd=init pmi_version=1 pmi_subversion=1\n"))
	require.Equal(t, []Effect{Words{2, 1, []byte("cmd=put_result rc=0 msg=success\n")}}, h.ReceiveCall(1, []byte("cmd=put kvsname=kvs_j key=k value=v\n")))
	require.Equal(t, []Effect{ClientFrame{2, rankwire.Collect{Op: 1}}}, h.ReceiveCall(1, []byte("cmd=barrier_in\n")))
	require.Equal(t, []Effect{Words{2, 1, []byte("cmd=barrier_out rc=0\n")}}, h.Deliver(2, rankwire.Release{Op: 1}))
	require.Empty(t, h.Receive(2, []byte("cmd=get_maxes\n")), "it speaks elsewhere")

	h.ReceiveCall(2, []byte("cmd=initack pmiid=77\n"))
	refused := h.Bound(2, 2, "")
	require.Len(t, refused, 3)
	require.Contains(t, refused[0].(Warn).Text, "rank 2: ")
	require.Equal(t, Words{Call: 2, Bytes: []byte("cmd=initack rc=-1 msg=another_program_speaks_for_this_rank_already\n")}, refused[1])
	require.Equal(t, HangUp{2}, refused[2])
	require.Empty(t, h.ReceiveCall(2, []byte("cmd=initack pmiid=78\n")), "it is over")

	h.ReceiveCall(3, []byte("cmd=initack pmiid=1\n"))
	require.Equal(t, []Effect{Words{Call: 3, Bytes: []byte("cmd=initack rc=-1 msg=no\n")}, HangUp{3}}, h.Bound(3, 0, "no"))
	require.Equal(t, []Effect{HangUp{4}}, h.ReceiveCall(4, []byte("cmd=get_maxes\n")), "the user hears nothing of it")
	h.ReceiveCall(5, []byte("cmd=initack pmiid=1\n"))
	h.CallClosed(5)
	require.Empty(t, h.Bound(5, 1, ""), "it is gone")

	require.True(t, h.Awaits(2))
	require.Empty(t, c.warned)
}
