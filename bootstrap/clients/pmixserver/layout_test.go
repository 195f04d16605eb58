package pmixserver

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/clients/pmix"
)

// Clients of a job whose agents know all hosts learn each node with its ranks, and each rank's
// host; those of others learn their own node's.
func TestHosts(t *testing.T) {
	of := newWorld(t, 3, 2).job
	of.Layout = of.Layout.Dealt(1)
	hosts := func(s *Server) (all []string) {
		for _, r := range s.describe().Ranks {
			all = append(all, r.Host)
		}
		return all
	}
	s := worldOf(t, of, nil).servers[1]
	own := pmix.Node{ID: 1, Host: "node1", Ranks: []pmix.Rank{1, 4}}
	require.Equal(t, []pmix.Node{own}, s.describe().Nodes)
	require.Equal(t, []string{"", "", "node1", "node1", "", ""}, hosts(s), "by slot")

	for _, wrong := range []string{"node[0-1]", "node[0-3]", "a,b,", "a[0-99999999],b,c"} {
		of.Hosts = wrong
		require.Len(t, worldOf(t, of, nil).servers[1].describe().Nodes, 1, wrong)
	}
	of.Hosts = "node[0-1],front"
	w := worldOf(t, of, nil)
	s = w.servers[1]
	s.Placed(Placement{Oversubscribed: true})
	own.Oversubscribed = true
	require.Equal(t, []pmix.Node{
		own, {Host: "node0", Ranks: []pmix.Rank{0, 3}}, {ID: 2, Host: "front", Ranks: []pmix.Rank{2, 5}},
	}, s.describe().Nodes)
	require.Equal(t, []string{"node0", "node0", "node1", "node1", "front", "front"}, hosts(s))
	require.Equal(t, pmix.Rank(1), s.describe().Leader)
}

// A host that is not known is not found, also where the client would wait.
func TestUnknownHost(t *testing.T) {
	w := newWorld(t, 2, 1)
	all := w.all()
	gives(t, pmix.NotFound, all[0].get(1, "pmix.hname"))
	require.True(t, gives(t, pmix.Done, all[0].get(0, "pmix.hname")).Found("pmix.hname", "node0"))
	j := *w.job
	j.Hosts = "node[0-1]"
	c := worldOf(t, &j, nil).client(0)
	require.True(t, gives(t, pmix.Done, c.get(1, "pmix.hname")).Found("pmix.hname", "node1"))
}
