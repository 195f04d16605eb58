//go:build cluster

package attack

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/screen"
)

// with is the stage for a subtest.
func (s *stage) with(t *testing.T) *stage {
	c := *s
	c.t = t
	return &c
}

// decoy makes a file of the victim on a node that no attack may change, and tells
// whether it is unchanged.
func (s *stage) decoy(node, path string) (intact func() bool) {
	write := "mkdir -p " + filepath.Dir(path) + " && echo 'ten years of work' >" + path + " && chmod 600 " + path
	s.succeed(victimID, node, "sh", "-c", write)
	return func() bool { return s.root(node, "cat", path) == "ten years of work\n" }
}

// TestAttacks makes each attack while one job runs on all nodes, and at the end of others.
func TestAttacks(t *testing.T) {
	s := newStage(t)
	j := s.on("-n", "6", "--lazy", "--stats", s.self, ":as", "work")
	j.await("round 1 done")
	for _, a := range []struct {
		name string
		try  func(s *stage, j *job)
	}{
		{"reading processes", readProcesses},
		{"taking hold of processes", grabProcesses},
		{"sockets with names", connectNames},
		{"files that others can write", pryFiles},
		{"datagrams in another's name", spoofDatagrams},
		{"connections without end", floodStreams},
		{"a program at the parent's path", plantProgram},
		{"the folder of a binary that is sent", swapShipped},
		{"links where output goes", linkOutput},
		{"links where a report goes", linkReport},
		{"links where Open MPI's files lie", linkLeftovers},
		{"numbers of PMI", guessPMI},
		{"a host file", evilHosts},
		{"a machine that says it is a node", evilMachine},
		{"jobs that end", attackEnds},
	} {
		t.Run(a.name, func(t *testing.T) { a.try(s.with(t), j) })
	}
	// The first job has run during all attacks, and each message arrived once and unchanged.
	j.do("all")
	j.write("stop")
	j.end()
	require.Regexp(t, `[1-9]\d{2,} strangers`, j.err.String(), "forged datagrams reached the ranks")
	nothingLeft(s)
}

// nothingLeft waits until no process of the victim runs on a node, and requires
// that the folders of everybody have no file of the victim.
func nothingLeft(s *stage) {
	for _, node := range s.Nodes()[:nodes] {
		s.await("nothing runs on "+node, func() bool { return len(s.processes(node)) == 0 })
		found := s.root(node, "find", "/tmp", "/var/tmp", "/dev/shm", "-user", victim)
		require.Empty(s.t, found, node)
	}
}

// requireRefused requires that each line of a tool's output ends with a refusal.
func requireRefused(t *testing.T, out string) {
	t.Helper()
	require.NotEmpty(t, out)
	for line := range strings.Lines(out) {
		require.Regexp(t, `: (permission denied|operation not permitted)\n$`, line)
	}
}

// onItsOwn runs a tool on a process of the attacker, where it succeeds.
func onItsOwn(s *stage, tool string) string {
	script := `"$0" :as sleep >/dev/null 2>&1 & "$0" :as ` + tool + ` $!; kill -9 $! 2>/dev/null; :`
	return s.succeed(attackerID, s.Nodes()[0], "sh", "-c", script, s.self)
}

// secret is what a key looks like in text.
var secret = regexp.MustCompile(`[0-9a-fA-F]{24,}`)

// readProcesses reads memory, environment, descriptors and arguments of the job's processes.
func readProcesses(s *stage, _ *job) {
	own := onItsOwn(s, "peep")
	for _, what := range []string{"environ", "maps", "mem", "exe", "fd", "fd/0"} {
		require.Contains(s.t, "\n"+own, "\n"+what+": done\n")
	}
	for _, node := range s.Nodes()[:nodes] {
		of := s.processes(node)
		require.Len(s.t, of, 3, "reaper, agent and ranks on %s", node)
		for _, list := range of {
			requireRefused(s.t, s.attack(node, "peep", fmt.Sprint(list[0].NodePid)))
			for _, p := range list {
				for _, word := range p.Argv { // every user can read these
					require.NotRegexp(s.t, secret, word)
				}
			}
		}
	}
}

// grabProcesses traces, robs, slows and kills the job's processes.
func grabProcesses(s *stage, _ *job) {
	own := onItsOwn(s, "grab")
	require.Equal(s.t, 7, strings.Count(own, ": done\n"), own)
	for _, node := range s.Nodes()[:nodes] {
		for _, list := range s.processes(node) {
			requireRefused(s.t, s.attack(node, "grab", fmt.Sprint(list[0].NodePid)))
		}
	}
}

// connectNames looks for Unix sockets with a name: the kernel lets every user
// connect to an abstract one.
func connectNames(s *stage, _ *job) {
	const list = `awk 'NR > 1 && NF > 7 { print $8 }' /proc/net/unix | grep -v -e /run/vcluster -e @vcluster; :`
	for _, node := range s.Nodes()[:nodes] {
		names := func() string { return s.root(node, "sh", "-c", list) }
		require.Empty(s.t, names(), "no agent and no rank has one")
		_, end := s.begin(node, "listen", "@attack")
		require.Contains(s.t, names(), "@attack", "the list shows such a socket")
		end()
		s.await("it is gone", func() bool { return names() == "" })
	}
}

// pryFiles opens all files for writing that the victim has where the job's files
// lie. The victim's home can be read by everybody, as on many clusters.
func pryFiles(s *stage, _ *job) {
	pry := func(node string) string {
		return s.attack(node, "pry", victimID, "/tmp", "/var/tmp", "/dev/shm", "/run", home)
	}
	for _, node := range s.Nodes()[:nodes] {
		require.NotEmpty(s.t, s.root(node, "find", home+"/.cache", "-type", "f"), "the binary that was sent")
		require.Empty(s.t, pry(node))
		s.succeed(victimID, node, "sh", "-c", "umask 0; mkdir /dev/shm/open; echo >/dev/shm/open/file")
		require.Equal(s.t, "/dev/shm/open: done\n/dev/shm/open/file: done\n", pry(node), "a careless program's files")
		s.root(node, "rm", "-r", "/dev/shm/open")
	}
}

// awaitEnd waits until nothing of a second job is left: the first one still runs.
func (s *stage) awaitEnd(node string) {
	s.await("the job is gone from "+node, func() bool {
		of := s.processes(node)
		return len(of[":reaper"]) == 1 && len(of[":agent"]) == 1 && len(of["rank"]) == 2
	})
}

// attackEnds attacks jobs that end by themselves, by a signal, and because their
// root is killed.
func attackEnds(s *stage, _ *job) {
	provokeDisruption(s)
	intact := s.decoy(s.Nodes()[0], home+"/work/decoy")
	for _, how := range []string{"stop", "interrupt", "kill"} {
		j := s.on("-n", "6", s.self, ":as", "work")
		j.await("round 1 done")
		j.do("near")
		var ends []func()
		var done []*screen.Screen
		begin := func(node, tool string, args ...string) {
			out, end := s.begin(node, tool, args...)
			ends, done = append(ends, end), append(done, out)
		}
		for _, node := range s.Nodes()[:nodes] {
			begin(node, "disrupt", victimID, home+"/work")
			for _, port := range s.ports(node, "tcp", "0A") {
				begin(own, "flood", fmt.Sprintf("%s:%d", s.Address(node), port))
			}
		}
		switch how {
		case "stop":
			j.write("stop")
			j.end()
		case "interrupt":
			require.NoError(s.t, j.cmd.Process.Signal(syscall.SIGINT))
			<-j.over
			require.Equal(s.t, 130, j.cmd.ProcessState.ExitCode(), j.err.String())
		case "kill":
			require.NoError(s.t, j.cmd.Process.Kill())
			<-j.over
		}
		for _, node := range s.Nodes()[:nodes] {
			s.awaitEnd(node)
		}
		for i, end := range ends {
			end()
			require.NotContains(s.t, done[i].String(), "done", how)
		}
		require.True(s.t, intact())
	}
	s.root(s.Nodes()[0], "rm", "-r", home+"/work")
}

// provokeDisruption shows that a disruption harms what it may: a process and a file of the
// attacker's.
func provokeDisruption(s *stage) {
	node := s.Nodes()[0]
	_, endSleep := s.begin(node, "sleep")
	s.succeed(attackerID, node, "touch", "/tmp/file")
	disrupt, end := s.begin(node, "disrupt", attackerID, "/nowhere")
	s.await("a disruption kills and removes", func() bool {
		said := disrupt.String()
		return regexp.MustCompile(`kill \d+ done`).MatchString(said) &&
			strings.Contains(said, "removal of /tmp/file done")
	})
	end()
	endSleep()
}
