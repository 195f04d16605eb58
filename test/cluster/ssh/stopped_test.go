//go:build cluster

package ssh

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/test/vcluster/cluster"
)

// crew holds the processes of one job by their ids on the machine.
type crew map[int]cluster.Proc

// crewOf waits until each of the hosts has exactly as many processes `sleep MARK` as the argument each says. It returns
// these processes with their agents and reapers.
func crewOf(t *testing.T, c *cluster.Cluster, hosts []string, mark string, each int) crew {
	all := crew{}
	await(t, mark+" runs everywhere", func() bool {
		clear(all)
		for _, host := range hosts {
			procs, err := c.Processes(host)
			require.NoError(t, err)
			ranks := 0
			for _, p := range procs {
				if strings.Join(p.Argv, " ") != "sleep "+mark {
					continue
				}
				ranks++
				all[p.Pid] = p
				agent := parentOf(t, p.Pid)
				for _, above := range []int{agent, parentOf(t, agent)} {
					if at := slices.IndexFunc(procs, func(p cluster.Proc) bool { return p.Pid == above }); at >= 0 {
						all[above] = procs[at]
					}
				}
			}
			if ranks != each {
				return false
			}
		}
		return true
	})
	return all
}

// agent returns the process id of the agent on a host.
func (all crew) agent(t *testing.T, c *cluster.Cluster, host string) int {
	procs, err := c.Processes(host)
	require.NoError(t, err)
	for _, p := range procs {
		if _, ours := all[p.Pid]; ours && len(p.Argv) > 1 && p.Argv[1] == reaper.Agent {
			return p.Pid
		}
	}
	t.Fatalf("no agent on %s", host)
	return 0
}

// left returns the processes that still live.
func (all crew) left() (living []cluster.Proc) {
	for pid, p := range all {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Join(p.Argv, "\x00")+"\x00" == string(stat) {
			living = append(living, p)
		}
	}
	return living
}

// stopped represents a job. A test stops its agent on the host victim by SIGSTOP.
type stopped struct {
	name   string
	victim string
	args   []string
	job    *job
	all    crew
	agent  int
}

func (s *stopped) left() bool { return len(s.all.left()) > 0 }

// TestStopped stops one agent in each of several jobs by SIGSTOP. A stopped agent neither notices that the connection
// to its parent is closed nor kills its ranks, so its reaper must kill them. The jobs in forEver differ in the
// launcher, and so in the kind of connection. All jobs run at the same time, since each takes a minute. The agent of
// awhile continues after 50 s, and its job must succeed. The root of rootless is killed, and all processes of its job
// must end.
func TestStopped(t *testing.T) {
	parallel(t, waiting)
	c := own(t, cluster.Config{Nodes: 4, RSH: true})
	tree := []string{"--tree", "chain", "--hosts", strings.Join(c.Nodes(), ",")}
	forEver := []*stopped{
		{name: "native ssh", victim: "node0002", args: append(tree, "--ssh", "native")},
		{name: "ssh", victim: "node0001", args: append(tree, "--ssh", "exec")},
		{name: "rsh", victim: "node0002", args: append(tree, "--launcher", "rsh")},
		{name: "rsh stand-in", victim: "node0003", args: append(tree, "--launcher-exec", c.VRSH())},
		{name: "local", victim: cluster.FrontName, args: []string{"--launcher", "local"}},
	}
	awhile, rootless := &stopped{name: "50 s", victim: "node0002", args: tree}, &stopped{name: "root killed",
		victim: "node0002", args: tree}
	for i, s := range append(forEver, awhile, rootless) {
		mark, hosts := fmt.Sprint(2000+i), c.Nodes()
		if s.victim == cluster.FrontName {
			hosts = []string{s.victim}
		}
		program := []string{"sh", "-c", "(setsid sleep " + mark + " </dev/null >/dev/null 2>&1 &); exec sleep " + mark}
		each := 2
		if s == awhile {
			mark, each = "90", 1
			program = []string{"sleep", mark}
		}
		s.job = start(t, c, append(s.args, program...)...)
		s.all = crewOf(t, c, hosts, mark, each)
		s.agent = s.all.agent(t, c, s.victim)
	}
	awhileEnds := time.After(50 * time.Second) // how long the agent of awhile is stopped
	for _, s := range append(forEver, awhile, rootless) {
		require.NoError(t, syscall.Kill(s.agent, syscall.SIGSTOP))
	}
	require.NoError(t, rootless.job.cmd.Process.Kill())
	await(t, "nothing is left without a root", func() bool { return !rootless.left() })

	<-awhileEnds
	require.NoError(t, syscall.Kill(awhile.agent, syscall.SIGCONT))
	for _, s := range forEver {
		o := s.job.wait()
		require.Equal(t, 125, o.code, "%s: %s", s.name, o.stderr)
		require.Contains(t, o.stderr, s.victim, s.name)
		require.Contains(t, o.stderr, "its agent has been silent for 60 s", s.name)
	}
	for _, s := range forEver {
		await(t, s.name+": nothing is left", func() bool { return !s.left() })
	}
	o := awhile.job.wait()
	require.Equal(t, 0, o.code, o.stderr)
	require.Empty(t, o.stderr)
	requireNothingLeft(t, c)
}

// TestStoppedAndCut stops an agent and cuts off its node. The sshd on the node does not notice the cut, because it has
// no data to send. The reaper must notice that its agent is stopped, and end all processes of the node.
func TestStoppedAndCut(t *testing.T) {
	parallel(t, waiting)
	c := own(t, cluster.Config{Nodes: 3})
	j := start(t, c, "--tree", "chain", "--hosts", strings.Join(c.Nodes(), ","), "sleep", "2020")
	all := crewOf(t, c, c.Nodes(), "2020", 1)
	require.NoError(t, syscall.Kill(all.agent(t, c, "node0002"), syscall.SIGSTOP))
	require.NoError(t, c.Cut("node0002"))
	require.Equal(t, 125, j.wait().code)
	await(t, "nothing is left", func() bool { return len(all.left()) == 0 })
}
