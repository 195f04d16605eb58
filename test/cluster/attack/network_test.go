//go:build cluster

package attack

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// spoofDatagrams sends datagrams to ranks in the name of their neighbours: those
// that the neighbours have sent, repeated, changed and cut, and noise.
func spoofDatagrams(s *stage, j *job) {
	node := s.Nodes()[1]
	heard, end := s.begin(node, "hear", "9999")
	sent := s.root(own, s.self, ":as", "spoof", s.Address(s.Nodes()[0])+":7777", s.Address(node)+":9999", "68656c6c6f")
	require.Contains(s.t, sent, "sent ")
	forged := `"hello" from ` + s.Address(s.Nodes()[0]) + ":7777\n"
	s.await("a program that believes the address believes it", func() bool {
		return strings.Contains(heard.String(),
			forged)
	})
	end()

	for _, port := range s.ports(node, "udp", "07") {
		captured := strings.Split(strings.TrimSpace(s.root(node, s.self, ":as", "sniff", fmt.Sprint(port), "6")), "\n")
		from, to := strings.Fields(captured[0])[0], fmt.Sprintf("%s:%d", s.Address(node), port)
		args := []string{s.self, ":as", "spoof", from, to}
		for _, line := range captured {
			args = append(args, strings.Fields(line)[1])
		}
		s.root(own, args...)
	}
	j.do("all")
}

// floodStreams has strangers take all that ranks give them, while each rank makes a
// stream to each other one.
func floodStreams(s *stage, j *job) {
	j.do("near")
	ranks := s.ranks()
	before := descriptors(s.t, ranks)
	var ends []func()
	for _, node := range s.Nodes()[:nodes] {
		for _, port := range s.ports(node, "tcp", "0A") {
			for _, from := range []string{own, node} {
				_, end := s.begin(from, "flood", fmt.Sprintf("%s:%d", s.Address(node), port))
				ends = append(ends, end)
			}
		}
	}
	require.NotEmpty(s.t, ends, "ranks of the ring listen")
	s.await("strangers are in", func() bool {
		return descriptors(s.t, ranks).sum >= before.sum+len(ends)*50 // of the 64 that one source may have
	})
	done := j.order("all")
	j.until("all", func() bool {
		require.Less(s.t, descriptors(s.t, ranks).most, before.most+256,
			"descriptors of one rank: two sources may have 64 connections each")
		return done()
	})
	for _, end := range ends {
		end()
	}
}

// ranks are the victim's on all nodes.
func (s *stage) ranks() (of []cluster.Proc) {
	for _, node := range s.Nodes()[:nodes] {
		of = append(of, s.processes(node)["rank"]...)
	}
	return of
}

// use is a number of descriptors: of all processes, and of the one with the most.
type use struct{ sum, most int }

func descriptors(t *testing.T, of []cluster.Proc) (u use) {
	for _, p := range of {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Pid))
		require.NoError(t, err)
		u = use{u.sum + len(fds), max(u.most, len(fds))}
	}
	return u
}

func guessPMI(s *stage, _ *job) {
	node := s.Nodes()[0]
	j := s.run("--hosts", node, "--pmi-port", "-n", "2", "sh", "-c", `echo "$PMI_PORT $PMI_ID."; read -r end; :`)
	j.await(".")
	words := strings.Fields(strings.Split(j.out.String(), ".\n")[0])
	port, id := words[0], words[1]
	out := s.attack(node, "guess", port, id) // even with the right one
	require.Equal(s.t, "heard 0 bytes\n", out)
	out = s.succeed(victimID, node, s.self, ":as", "guess", port, id)
	require.NotContains(s.t, out, "heard 0 bytes", "the rank's own user is answered")
	require.Equal(s.t, 1, strings.Count(j.err.String(), "user "+attackerID+" of this node calls PMI_PORT"),
		j.err.String())
	require.NoError(s.t, j.cmd.Process.Signal(syscall.SIGTERM))
	<-j.over
}

// evilHosts gives the victim a host file with options and commands.
func evilHosts(s *stage, _ *job) {
	for _, line := range []string{
		"-oProxyCommand=touch${IFS}/run/scratch/ran", "node0001 -oProxyCommand=touch", "x@-oProxyCommand=touch",
		"$(touch /run/scratch/ran)",
		"`touch /run/scratch/ran`", "node0001;touch /run/scratch/ran", "node0001\\x9b2J",
		"node0001 user=-oProxyCommand=x",
	} {
		script := `printf '%b\n' "$0" >/run/scratch/hosts && chmod 644 /run/scratch/hosts`
		out, err := s.Command(s.t.Context(), as(attackerID, "sh", "-c", script, line)...).CombinedOutput()
		require.NoError(s.t, err, "%s", out)
		j := s.run("-f", "/run/scratch/hosts", "-n", "1", "true")
		<-j.over
		require.NotEqual(s.t, 0, j.cmd.ProcessState.ExitCode(), line)
		for _, c := range j.err.String() {
			require.False(s.t, c != '\n' && c < ' ' || c >= 0x7f && c < 0xa0 || c == 0xfffd, "%q", j.err.String())
		}
	}
	seen := func() bool {
		return s.Command(s.t.Context(), "test", "-e", "/run/scratch/ran").Run() == nil
	}
	require.False(s.t, seen())
	plant := as(attackerID, "sh", "-c", `echo '-oProxyCommand=touch${IFS}/run/scratch/ran' >/run/scratch/hosts`)
	require.NoError(s.t, s.Command(s.t.Context(), plant...).Run())
	naive := as(victimID, "sh", "-c", `ssh $(cat /run/scratch/hosts) -oBatchMode=yes x true`)
	_, _ = s.Command(s.t.Context(), naive...).CombinedOutput()
	require.True(s.t, seen(), "ssh runs what such a list says")
}

// evilMachine is a machine that answers in the place of a node, with a key of its own.
func evilMachine(s *stage, _ *job) {
	for _, p := range s.server(own) {
		require.NoError(s.t, syscall.Kill(p.Pid, syscall.SIGKILL))
	}
	s.root(own, "sh", "-c",
		"ssh-keygen -q -t ed25519 -N '' -f /run/evil && grep -v HostKey /etc/vcluster/sshd_config >/run/evil.conf && "+
			"echo HostKey /run/evil >>/run/evil.conf && install -d -o "+victimID+" "+home+
			" && /usr/sbin/sshd -f /run/evil.conf")
	s.await("sshd listens", func() bool { // It does so after its parent process has ended.
		return s.Command(s.t.Context(), "bash", "-c", "exec 3<>/dev/tcp/"+own+"/22").Run() == nil
	})
	for _, how := range []string{"native", "exec"} {
		for _, option := range []string{"", "-o StrictHostKeyChecking=accept-new"} {
			j := s.run("--ssh", how, "--hosts", own, "-n", "1", "--ssh-args", option, "hostname")
			<-j.over
			require.Equal(s.t, 125, j.cmd.ProcessState.ExitCode(), j.err.String())
			require.Regexp(s.t, `(?i)host key`, j.err.String())
			require.Empty(s.t, j.out.String())
		}
	}
	believe := "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o GlobalKnownHostsFile=/dev/null"
	j := s.run("--hosts", own, "-n", "1", "--ssh-args", believe, "hostname")
	require.Equal(s.t, own+"\n", j.end(), "without a look at keys the job runs there")
}

// server returns the processes of a node's sshd.
func (s *stage) server(node string) (of []cluster.Proc) {
	all, err := s.Processes(node)
	require.NoError(s.t, err)
	for _, p := range all {
		if strings.Contains(strings.Join(p.Argv, " "), "sshd") {
			of = append(of, p)
		}
	}
	require.NotEmpty(s.t, of)
	return of
}
