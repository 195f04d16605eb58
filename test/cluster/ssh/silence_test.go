//go:build cluster

package ssh

import (
	"bufio"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// TestOneWay drops TCP packets that a node sends to its child, to its parent or to all hosts. Packets from other hosts
// still arrive. The filter is on the node itself, whose kernel does not count the packets as sent and so starts no TCP
// timeout. The job must end, and no process may be left.
func TestOneWay(t *testing.T) {
	parallel(t, waiting)
	c := own(t, cluster.Config{Nodes: 4})
	nft := func(words string) { on(t, c, "node0002", append([]string{"nft"}, strings.Fields(words)...)...) }
	for _, one := range []struct{ name, what string }{
		{"to the agents below", "tcp dport 22"},
		{"to its parent", "tcp sport 22"},
		{"to all", "meta l4proto tcp"},
	} {
		t.Run(one.name, func(t *testing.T) {
			j := endless(t, c)
			nft("add table inet oneway")
			nft("add chain inet oneway out { type filter hook output priority 0 ; }")
			nft("add rule inet oneway out " + one.what + " drop")
			defer nft("delete table inet oneway")
			o := j.wait()
			require.Equal(t, 125, o.code, o.stderr)
			require.Contains(t, o.stderr, "its host has not answered for 10 s")
			requireNothingLeft(t, c)
		})
	}
}

// TestNoLaunch starts a reaper and its agent on each of four nodes, as a parent does, and reads the first line of each
// agent. It never sends the Launch frame that the agents wait for, and cuts off two of the nodes. All processes must
// end.
func TestNoLaunch(t *testing.T) {
	parallel(t, waiting)
	c := own(t, cluster.Config{Nodes: 4, RSH: true})
	calls := []struct {
		launcher []string
		node     string
		cut      bool
	}{
		{[]string{"ssh"}, "node0001", true},
		{[]string{"rsh"}, "node0002", true},
		{[]string{"ssh"}, "node0003", false},
		{[]string{c.VRSH()}, "node0004", false},
	}
	for _, call := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		parent := c.Command(ctx, append(call.launcher, call.node, "exec", program, ":reaper")...)
		in, err := parent.StdinPipe()
		require.NoError(t, err)
		defer in.Close()
		out, err := parent.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, parent.Start())
		word, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, word, "::ibrun-agent:1 ")
		require.Len(t, ours(t, c, call.node), 2)
		if call.cut {
			require.NoError(t, c.Cut(call.node))
		}
	}
	for _, call := range calls { // an agent ends after a minute if the host of its parent still answers
		await(t, call.node+": nothing is left", func() bool { return len(ours(t, c, call.node)) == 0 })
	}
}
