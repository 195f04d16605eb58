//go:build cluster

package ssh

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// statistics holds the part of --stats=json that these tests use.
type statistics struct {
	Mode, Why string
	Ranks     int
	Sums      map[string]int
	Levels    []struct{ Asked, Own, Relayed int }
	P99       float64 `json:"first_message_p99_us"`
}

func stats(t *testing.T, o outcome) (s statistics) {
	t.Helper()
	for line := range strings.Lines(o.stderr) {
		if strings.HasPrefix(line, "{") {
			require.NoError(t, json.Unmarshal([]byte(line), &s))
			return s
		}
	}
	require.Fail(t, "no statistics in: "+o.stderr)
	return s
}

// TestLazyRing runs a ring of 64 ranks on 16 nodes with --lazy, so that ranks look up the addresses of other nodes only
// when needed. Only the last rank of each node must look up an address, that of the first rank on the next node. In a
// flat tree each of the 16 look-ups must cross the root.
func TestLazyRing(t *testing.T) {
	parallel(t, working)
	c := shared(t, 16)
	ring := example(t, c, "examples/ring")
	for _, tree := range []string{"flat", "kary:2"} {
		o := ibrun(t, c, "-n", "64", "--hosts", "node[0001-0016]", "--tree", tree, "--lazy", "--stats=json", ring)
		require.Equal(t, 0, o.code, o.stderr)
		require.Equal(t, "the token went 3 times around 64 ranks\n", o.stdout)
		s := stats(t, o)
		require.Equal(t, "lazy", s.Mode)
		require.Equal(t, 64, s.Sums["ranks"])
		require.Equal(t, 2*64, s.Sums["peers"])
		require.Equal(t, 2*48, s.Sums["local_peers"])
		require.Equal(t, 16, s.Sums["lookups"], "one for each pair of neighboring nodes")
		require.Equal(t, 32, s.Sums["connections"])
		asked, own := 0, 0
		for _, l := range s.Levels {
			asked, own = asked+l.Asked, own+l.Own
		}
		// A rank may also ask whether a slow peer still has its address, and may end before it gets the answer. So on a
		// busy machine there may be more requests than look-ups.
		require.GreaterOrEqual(t, own, 16, "requests that the agent of the requested node answered")
		require.LessOrEqual(t, own, 16+s.Sums["checks"])
		if tree == "flat" {
			require.GreaterOrEqual(t, asked, 3*own, "each look-up reaches the root and the agents of both ranks")
			require.LessOrEqual(t, asked, 3*(16+s.Sums["checks"]))
		}
	}
	o := ibrun(t, c, "-n", "8", "--hosts", "node[0001-0002]", "--lazy", "--stats", ring)
	require.Contains(t, o.stderr, "peers 2.0 per rank of 7 possible")
	require.Contains(t, o.stderr, "look-ups 2 by 8 ranks")
}

// TestLazyAllToAll lets every rank send to every rank with --lazy, --eager and --lazy=auto. With --lazy=auto, jobs of
// 16 and of 64 ranks must choose the eager mode, in which each rank gets the addresses of all ranks. Their table is
// small and arrives before the first barrier ends. `make bench-lazy` measures which mode is faster.
func TestLazyAllToAll(t *testing.T) {
	parallel(t, working)
	c := shared(t, 16)
	program := example(t, c, "examples/alltoall")
	const asked, small = "as asked for", "the whole table costs no more than a look-up: it comes besides"
	for _, j := range []allToAll{
		{16, 1, "--lazy", "lazy", asked},
		{16, 1, "--eager", "eager", asked},
		{16, 1, "--lazy=auto", "eager", small},
		{16, 4, "--lazy=auto", "eager", small},
	} {
		t.Run(fmt.Sprintf("%dx%d %s", j.nodes, j.perNode, j.option), func(t *testing.T) { j.run(t, c, program) })
	}
}

// allToAll describes a job of examples/alltoall. The statistics of ibrun must report the given mode and the reason why.
type allToAll struct {
	nodes, perNode    int
	option, mode, why string
}

// run runs the job and checks its statistics. In lazy mode each node must request the block of addresses of each other
// node once, through the root. In eager mode no look-up may leave its node. In both modes ranks may also ask other
// nodes whether a slow peer still runs.
func (j allToAll) run(t *testing.T, c *cluster.Cluster, program string) {
	ranks := j.nodes * j.perNode
	o := ibrun(t, c, "-n", strconv.Itoa(ranks), "--hosts", fmt.Sprintf("node[0001-%04d]", j.nodes),
		"-ppn", strconv.Itoa(j.perNode), "--tree", "flat", j.option, "--stats=json", program)
	require.Equal(t, 0, o.code, o.stderr)
	require.Regexp(t, fmt.Sprintf(`^%d ranks sent %d messages of 64 bytes in \S+\n$`, ranks, ranks*ranks), o.stdout)
	s := stats(t, o)
	require.Equal(t, j.mode, s.Mode)
	require.Equal(t, j.why, s.Why)
	require.Equal(t, ranks*(ranks-1), s.Sums["peers"])
	require.Equal(t, ranks*ranks, s.Sums["messages"])
	require.LessOrEqual(t, s.Sums["lookups"], ranks*(j.nodes-1))
	root, agents, checks := s.Levels[0], s.Levels[1], s.Sums["checks"]
	if j.mode == "lazy" {
		require.GreaterOrEqual(t, root.Relayed, j.nodes)
		require.LessOrEqual(t, root.Relayed, j.nodes+checks, "each block crosses the edge to its node once")
		require.LessOrEqual(t, agents.Relayed, j.nodes*(j.nodes-1)+checks, "each block reaches each other node once")
		return
	}
	require.LessOrEqual(t, root.Asked, checks)
	require.LessOrEqual(t, agents.Relayed, checks)
}

// TestLazyRankKilled kills a rank. All ranks that send to it, on its node and on others, must get an error that names
// it.
func TestLazyRankKilled(t *testing.T) {
	parallel(t, working)
	c := shared(t, 4)
	talker := example(t, c, "test/cluster/talker")
	for _, fabric := range []string{"udp", "tcp"} {
		o := ibrun(t, c, "-n", "16", "-ppn", "4", "--hosts", "node[0001-0004]", "--keep-going", "--fabric", fabric,
			talker, "-victim", "5", "-die", "500ms")
		require.NotZero(t, o.code)
		said := regexp.MustCompile(`rank (\d+): after (\d+) ms: rank 5: (\w+)`).FindAllStringSubmatch(o.stdout, -1)
		require.Len(t, said, 15, "%s%s", o.stdout, o.stderr)
	}
}

// TestLazyNodeCut cuts off a node while ranks send to each other. The sends of the other ranks must report the loss.
func TestLazyNodeCut(t *testing.T) {
	parallel(t, waiting)
	c := own(t, cluster.Config{Nodes: 4})
	talker := example(t, c, "test/cluster/talker")
	j := start(t, c, "-n", "8", "-ppn", "2", "--hosts", "node[0001-0004]", "--kill-grace", "5", talker, "-victim", "7")
	await(t, "the ranks send", func() bool { return strings.Count(j.out.String(), "sends") >= 7 })
	require.NoError(t, c.Cut("node0004"))
	o := j.wait()
	require.Equal(t, 125, o.code, o.stderr)
	said := regexp.MustCompile(`rank (\d+): after (\d+) ms: rank 7: (\w+)`).FindAllStringSubmatch(o.stdout, -1)
	seen := map[string]bool{}
	for _, m := range said {
		seen[m[1]] = true
	}
	require.Len(t, seen, 6, fmt.Sprintf("want errors from all ranks on the other three nodes: %s%s", o.stdout, o.stderr))
}

// TestNetworkShrinks changes the MTU of the network every 50 ms while ranks send. They send messages of 1,300 bytes,
// which take one datagram each, and of 30,000 bytes, which take a stream. All messages must arrive exactly once.
func TestNetworkShrinks(t *testing.T) {
	parallel(t, working)
	c := own(t, cluster.Config{Nodes: 2})
	program := example(t, c, "examples/alltoall")
	for _, size := range []string{"1300", "30000"} {
		changed := make(chan error, 1)
		ended := make(chan struct{})
		go func() {
			for {
				for _, mtu := range []string{"700", "1500", "1280"} {
					for _, node := range c.Nodes() {
						if err := c.Exec(t.Context(), node, "ip", "link", "set", "eth0", "mtu", mtu).Run(); err != nil {
							changed <- err
							return
						}
					}
					select {
					case <-ended:
						changed <- nil
						return
					case <-time.After(50 * time.Millisecond):
					}
				}
			}
		}()
		o := ibrun(t, c, "-n", "4", "-ppn", "2", "--hosts", "node[0001-0002]", program, "-bytes", size,
			"-count", "1000")
		close(ended)
		require.NoError(t, <-changed)
		require.Equal(t, 0, o.code, o.stderr)
		require.Regexp(t, `^4 ranks sent 16000 messages of `+size+` bytes in \S+\n$`, o.stdout)
	}
}

// TestNetworkLoses drops between 1 % and 30 % of all packets while ranks send. They send messages of 1,300 bytes, which
// take one datagram each, and of 30,000 bytes, which take a stream. All messages must arrive exactly once.
func TestNetworkLoses(t *testing.T) {
	parallel(t, waiting)
	c := own(t, cluster.Config{Nodes: 2})
	program := example(t, c, "examples/alltoall")
	nft := func(words ...string) {
		for _, node := range c.Nodes() {
			on(t, c, node, append([]string{"nft"}, words...)...)
		}
	}
	for _, one := range []struct{ inThousand, size, count int }{
		{10, 1300, 1000}, {50, 1300, 300}, {50, 30000, 100}, {300, 1300, 10},
	} {
		nft("add table inet lossy; add chain inet lossy out { type filter hook output priority 0; }; " +
			"add rule inet lossy out tcp sport 22 accept; add rule inet lossy out tcp dport 22 accept; " +
			fmt.Sprintf("add rule inet lossy out numgen random mod 1000 < %d drop", one.inThousand))
		o := ibrun(t, c, "-n", "4", "-ppn", "2", "--hosts", "node[0001-0002]", program, "-bytes",
			strconv.Itoa(one.size), "-count", strconv.Itoa(one.count))
		nft("delete table inet lossy")
		require.Equal(t, 0, o.code, o.stderr)
		require.Contains(t, o.stdout, fmt.Sprintf("4 ranks sent %d messages of %d bytes", 16*one.count, one.size))
	}
}
