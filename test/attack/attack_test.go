package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// with is the stage for a part of a test.
func (s *stage) with(t *testing.T) *stage {
	c := *s
	c.t = t
	return &c
}

// decoy is a file of the victim's on a node that no attack may change, and whether
// it is as it was.
func (s *stage) decoy(node, path string) (intact func() bool) {
	write := "mkdir -p " + filepath.Dir(path) + " && echo 'ten years of work' >" + path + " && chmod 600 " + path
	out, err := s.by(victimID, node, "sh", "-c", write)
	require.NoError(s.t, err, out)
	return func() bool { return s.root(node, "cat", path) == "ten years of work\n" }
}

func TestAttacks(t *testing.T) {
	s := newStage(t)
	j := s.on("-n", "6", "--lazy", s.self, ":as", "work")
	j.await("round 1 done")
	for _, a := range []struct {
		name string
		try  func(s *stage, j *job)
	}{
		{"reading processes", readProcesses},
		{"taking hold of processes", grabProcesses},
		{"sockets with names", connectNames},
		{"datagrams in another's name", spoofDatagrams},
		{"connections without end", floodStreams},
		{"a program where the parent's lies", func(s *stage, _ *job) { plantProgram(s) }},
		{"the folder of a binary that is sent", func(s *stage, _ *job) { swapShipped(s) }},
		{"links where output goes", func(s *stage, _ *job) { linkOutput(s) }},
		{"links where a report goes", func(s *stage, _ *job) { linkReport(s) }},
		{"links where Open MPI's files lie", func(s *stage, _ *job) { linkLeftovers(s) }},
		{"numbers of PMI", func(s *stage, _ *job) { guessPMI(s) }},
		{"a host file", func(s *stage, _ *job) { evilHosts(s) }},
		{"a machine that says it is a node", func(s *stage, _ *job) { evilMachine(s) }},
		{"a job that ends", func(s *stage, _ *job) { atTheEnd(s) }},
	} {
		t.Run(a.name, func(t *testing.T) { a.try(s.with(t), j) })
	}
	// All that while the first job has gone on, and nothing it sent was changed.
	j.tell("all")
	j.await("doneall")
	j.tell("stop")
	j.end()
	nothingLeft(s)
}

// nothingLeft waits until no process of the victim's is on a node, and looks for
// files in folders of everybody.
func nothingLeft(s *stage) {
	for _, node := range s.Nodes()[:nodes] {
		s.await("nothing runs on "+node, func() bool { return len(s.processes(node)) == 0 })
		found := s.root(node, "find", "/tmp", "/var/tmp", "/dev/shm", "-user", victim)
		require.Empty(s.t, found, node)
	}
}

// refused is that each line of a tool's output ends with a refusal.
func refused(t *testing.T, out string) {
	t.Helper()
	require.NotEmpty(t, out)
	for line := range strings.Lines(out) {
		require.Regexp(t, `: (permission denied|operation not permitted)\n$`, line)
	}
}

// ofItsOwn runs a tool on a process of the attacker's.
func ofItsOwn(s *stage, tool string) string {
	out, err := s.by(attackerID, s.Nodes()[0], "sh", "-c", `"$0" :as sleep >/dev/null & "$0" :as `+tool+` $!; kill -9 $! 2>/dev/null; :`, s.self)
	require.NoError(s.t, err, out)
	return out
}

var secret = regexp.MustCompile(`[0-9a-fA-F]{24,}`)

func readProcesses(s *stage, _ *job) {
	own := ofItsOwn(s, "peep")
	for _, what := range []string{"environ", "maps", "mem", "exe", "fd", "fd/0"} {
		require.Contains(s.t, "\n"+own, "\n"+what+": done\n")
	}
	for _, node := range s.Nodes()[:nodes] {
		of := s.processes(node)
		require.Len(s.t, of, 3, "reaper, agent and ranks on %s", node)
		for _, list := range of {
			refused(s.t, s.attack(node, "peep", fmt.Sprint(list[0].NodePid)))
			for _, p := range list {
				for _, word := range p.Argv { // everybody reads these
					require.NotRegexp(s.t, secret, word)
				}
			}
		}
	}
}

func grabProcesses(s *stage, _ *job) {
	own := ofItsOwn(s, "grab")
	require.Equal(s.t, 7, strings.Count(own, ": done\n"), own)
	for _, node := range s.Nodes()[:nodes] {
		for _, list := range s.processes(node) {
			refused(s.t, s.attack(node, "grab", fmt.Sprint(list[0].NodePid)))
		}
	}
}

// connectNames looks for sockets that have a name, to which anybody may connect.
func connectNames(s *stage, _ *job) {
	node := s.Nodes()[0]
	names := func() string {
		return s.root(node, "sh", "-c", `awk 'NR > 1 && NF > 7 { print $8 }' /proc/net/unix | grep -v -e /run/vcluster -e @vcluster; :`)
	}
	before := names()
	_, end := s.begin(node, "listen", "@attack")
	require.Contains(s.t, names(), "@attack", "such a socket would be seen")
	end()
	s.await("it is gone", func() bool { return names() == before })
	require.Empty(s.t, before, "no agent and no rank has one")
}

// spoofDatagrams sends to a rank in the name of its neighbour: what that has sent,
// again and in other words, and noise.
func spoofDatagrams(s *stage, j *job) {
	node := s.Nodes()[1]
	heard, end := s.begin(node, "hear", "9999")
	sent := s.root(own, s.self, ":as", "spoof", s.Address(s.Nodes()[0])+":7777", s.Address(node)+":9999", "68656c6c6f")
	require.Contains(s.t, sent, "sent ")
	forged := `"hello" from ` + s.Address(s.Nodes()[0]) + ":7777\n"
	s.await("who believes it believes it", func() bool { return strings.Contains(heard.String(), forged) })
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
	j.tell("all")
	j.await("doneall")
}

// floodStreams has strangers take all that a rank gives them, while each rank makes
// a stream to each other one.
func floodStreams(s *stage, j *job) {
	j.tell("near")
	j.await("donenear")
	var ends []func()
	for _, node := range s.Nodes()[:nodes] {
		for _, port := range s.ports(node, "tcp", "0A") {
			for _, from := range []string{own, node} {
				_, end := s.begin(from, "flood", fmt.Sprintf("%s:%d", s.Address(node), port))
				ends = append(ends, end)
			}
		}
	}
	require.NotEmpty(s.t, ends)
	open := func(pid int) int {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		require.NoError(s.t, err)
		return len(fds)
	}
	ranks := s.processes(s.Nodes()[0])["rank"]
	s.await("strangers are in", func() bool { return open(ranks[0].Pid)+open(ranks[1].Pid) > 100 })
	j.tell("all")
	for !strings.Contains(j.out.String(), "doneall") {
		for _, p := range ranks {
			require.Less(s.t, open(p.Pid), 400)
		}
		select {
		case <-j.over:
			require.FailNow(s.t, "the job has ended", j.err.String())
		default:
		}
	}
	for _, end := range ends {
		end()
	}
}

// plantProgram puts a program on a node where the victim's ibrun lies on the front.
func plantProgram(s *stage) {
	node := s.Nodes()[1]
	at, mark := "/dev/shm/bin/ibrun", "/tmp/planted"
	s.root(node, "rm", "-r", home+"/.cache") // where it would be found first
	out, err := s.Command(s.t.Context(), "sh", "-c", "install -D -o "+victimID+" "+s.ibrun+" "+at).CombinedOutput()
	require.NoError(s.t, err, "%s", out)
	out2, err := s.by(attackerID, node, "sh", "-c", `mkdir -m 755 /dev/shm/bin && printf '#!/bin/sh\nid -un >>`+mark+`; chmod 666 `+mark+`\nexit 1\n' >`+at+` && chmod 755 `+at)
	require.NoError(s.t, err, out2)
	_, _ = s.by(victimID, node, "sh", "-c", "test -x "+at+" && "+at)
	require.Equal(s.t, victim+"\n", s.root(node, "cat", mark), "who runs what is there, runs it")
	s.root(node, "rm", mark)

	as := *s
	as.ibrun = at
	j := as.on("-n", "3", "hostname")
	require.Contains(s.t, j.end(), node)
	require.Empty(s.t, s.root(node, "sh", "-c", "cat "+mark+" 2>/dev/null; :"))
}

// swapShipped watches for the folder that a binary is put into where the cache
// cannot be used, to be the one whose program is run.
func swapShipped(s *stage) {
	node := s.Nodes()[2]
	s.root(node, "sh", "-c", "rm -rf "+home+"/.cache && install -m 600 /dev/null "+home+"/.cache")
	defer s.root(node, "rm", home+"/.cache")
	out, end := s.begin(node, "swap", "weak", "/tmp")
	s.root(node, "sh", "-c", "mkdir -m 777 /tmp/weak.1")
	s.await("a folder of everybody is taken", func() bool { return s.root(node, "ls", "/tmp/weak.1") != "" })
	end()
	require.Contains(s.t, out.String(), "swapped")
	s.root(node, "sh", "-c", "rm -rf /tmp/weak*")

	out, end = s.begin(node, "swap", "ibrun", "/tmp", "/var/tmp", "/dev/shm")
	for range 3 {
		j := s.on("-n", "3", "hostname")
		require.Contains(s.t, j.end(), node)
	}
	end()
	require.NotContains(s.t, out.String(), "swapped")
}

// linksFollowed reports whether this machine's kernel follows links of others in
// folders of everybody: then the attack works against who does not look.
func linksFollowed(t *testing.T) bool {
	b, err := os.ReadFile("/proc/sys/fs/protected_symlinks")
	require.NoError(t, err)
	return strings.TrimSpace(string(b)) == "0"
}

func linkOutput(s *stage) {
	node := s.Nodes()[0]
	intact := s.decoy(node, home+"/work/decoy")
	link := func(name string) {
		out, err := s.by(attackerID, node, "ln", "-sf", home+"/work/decoy", name)
		require.NoError(s.t, err, out)
	}
	link("/tmp/log")
	_, err := s.by(victimID, node, "sh", "-c", "echo log >/tmp/log")
	require.Equal(s.t, linksFollowed(s.t), err == nil && !intact(), "who writes there, writes through the link")
	intact = s.decoy(node, home+"/work/decoy")

	link("/tmp/out.0")
	out, err := s.by(attackerID, node, "sh", "-c", "ln -s "+home+" /tmp/way; install -m 666 /dev/null /tmp/mine.0; mkfifo -m 666 /tmp/pipe.0")
	require.NoError(s.t, err, out)
	for pattern, why := range map[string]string{
		"/tmp/out.%r": "is a link that belongs to user " + attackerID, "/tmp/way/work/decoy": "is a link that belongs to user " + attackerID,
		"/tmp/mine.%r": "it belongs to user " + attackerID, "/tmp/pipe.%r": "it belongs to user " + attackerID,
	} {
		for _, option := range []string{"--output", "--error"} {
			j := s.run("--hosts", node, "-n", "1", option, pattern, "hostname")
			<-j.over
			require.NotEqual(s.t, 0, j.cmd.ProcessState.ExitCode(), pattern)
			require.Contains(s.t, j.err.String(), why)
			require.True(s.t, intact(), pattern)
		}
	}
	s.root(node, "sh", "-c", "rm -f /tmp/log /tmp/out.0 /tmp/way /tmp/mine.0 /tmp/pipe.0; rm -r "+home+"/work")
}

// linkReport is the same on the host where ibrun is called.
func linkReport(s *stage) {
	front := func(id, script string) {
		out, err := s.Command(s.t.Context(), as(id, "sh", "-c", script)...).CombinedOutput()
		require.NoError(s.t, err, "%s", out)
	}
	front("0", "mkdir -m 1777 /run/scratch")
	front(victimID, "echo 'ten years of work' >"+home+"/decoy")
	front(attackerID, "ln -s "+home+"/decoy /run/scratch/page.html; install -m 666 /dev/null /run/scratch/trace")
	for option, name := range map[string]string{"--report": "page.html", "--trace": "trace"} {
		j := s.on(option, "/run/scratch/"+name, "-n", "3", "true")
		<-j.over
		require.Equal(s.t, 2, j.cmd.ProcessState.ExitCode(), j.err.String())
		require.Contains(s.t, j.err.String(), "belongs to user "+attackerID)
	}
	front(victimID, "grep -qx 'ten years of work' "+home+"/decoy && test ! -s /run/scratch/trace")
	j := s.on("--report", "/run/scratch/own.html", "-n", "3", "true") // nobody is in the way
	j.end()
	front(victimID, "grep -q html /run/scratch/own.html")
}

// linkLeftovers leads the clean-up behind ranks of Open MPI to the victim's files.
func linkLeftovers(s *stage) {
	node := s.Nodes()[0]
	j := s.run("--hosts", node, "-n", "1", "sh", "-c", `echo "job $FLUX_JOB_ID."; read -r end`)
	j.await(".")
	var id uint32
	_, err := fmt.Sscanf(j.out.String(), "job %d.", &id)
	require.NoError(s.t, err, "ibrun was built without libpmi: make libpmi, with gcc")
	family, number := fmt.Sprintf("jf.%d", id>>16), fmt.Sprint(id&0xffff)
	intact := s.decoy(node, fmt.Sprintf("%s/work/%s/%s/0/decoy", home, family, number))
	for _, line := range []string{
		"d=/tmp/ompi.x." + victimID + "; mkdir $d; ln -s " + home + "/work/" + family + " $d/" + family,
		"d=/tmp/ompi." + node + "." + victimID + "; mkdir -p $d/" + family + "; ln -s " + home + "/work/" + family + "/" + number + " $d/" + family + "/" + number,
	} {
		out, err := s.by(attackerID, node, "sh", "-c", line)
		require.NoError(s.t, err, out)
	}
	naive := "for d in /tmp/ompi.*." + victimID + "/" + family + "/" + number + "/0; do ls $d; done"
	out, err := s.by(victimID, node, "sh", "-c", naive)
	require.NoError(s.t, err, out)
	require.Contains(s.t, out, "decoy", "who looks there by a pattern finds the victim's own files")
	j.tell("end")
	j.end()
	s.await("the agent has tidied up", func() bool { return s.agents(node) == s.agents(s.Nodes()[1]) })
	require.True(s.t, intact())
	s.root(node, "sh", "-c", "rm -r /tmp/ompi.* "+home+"/work")
}

func (s *stage) agents(node string) int { return len(s.processes(node)[":agent"]) }

func guessPMI(s *stage) {
	node := s.Nodes()[0]
	j := s.run("--hosts", node, "--pmi-port", "-n", "2", "sh", "-c", `echo "$PMI_PORT $PMI_ID."; read -r end; :`)
	j.await(".")
	words := strings.Fields(strings.Split(j.out.String(), ".\n")[0])
	port, id := words[0], words[1]
	out := s.attack(node, "guess", port, id) // even with the right one
	require.Equal(s.t, "heard 0 bytes\n", out)
	out, err := s.by(victimID, node, s.self, ":as", "guess", port, id)
	require.NoError(s.t, err, out)
	require.NotContains(s.t, out, "heard 0 bytes", "the rank's own user is answered")
	require.Equal(s.t, 1, strings.Count(j.err.String(), "user "+attackerID+" of this node calls PMI_PORT"), j.err.String())
	require.NoError(s.t, j.cmd.Process.Signal(syscall.SIGTERM))
	<-j.over
}

// evilHosts gives the victim a list of hosts that are options and commands.
func evilHosts(s *stage) {
	for _, line := range []string{
		"-oProxyCommand=touch${IFS}/run/scratch/ran", "node0001 -oProxyCommand=touch", "x@-oProxyCommand=touch", "$(touch /run/scratch/ran)",
		"`touch /run/scratch/ran`", "node0001;touch /run/scratch/ran", "node0001\\x9b2J", "node0001 user=-oProxyCommand=x",
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
	require.True(s.t, seen(), "who gives such a list to ssh runs it")
}

// evilMachine is a machine that answers in the place of a node, with a key of its own.
func evilMachine(s *stage) {
	for _, p := range s.server(own) {
		require.NoError(s.t, syscall.Kill(p.Pid, syscall.SIGKILL))
	}
	s.root(own, "sh", "-c", "ssh-keygen -q -t ed25519 -N '' -f /run/evil && grep -v HostKey /etc/vcluster/sshd_config >/run/evil.conf && "+
		"echo HostKey /run/evil >>/run/evil.conf && install -d -o "+victimID+" "+home+" && /usr/sbin/sshd -f /run/evil.conf")
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
	require.Equal(s.t, own+"\n", j.end(), "who does not look at keys is there")
}

// server is a node's sshd.
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

// atTheEnd attacks jobs as they end, by themselves and by a signal.
func atTheEnd(s *stage) {
	intact := s.decoy(s.Nodes()[0], home+"/work/decoy")
	for _, how := range []string{"stop", "interrupt", "kill"} {
		j := s.on("-n", "6", s.self, ":as", "work")
		j.await("round 1 done")
		j.tell("near")
		j.await("donenear")
		var ends []func()
		var done []*screen
		begin := func(node, tool string, args ...string) {
			out, end := s.begin(node, tool, args...)
			ends, done = append(ends, end), append(done, out)
		}
		for _, node := range s.Nodes()[:nodes] {
			begin(node, "storm", victimID, home+"/work")
			for _, port := range s.ports(node, "tcp", "0A") {
				begin(own, "flood", fmt.Sprintf("%s:%d", s.Address(node), port))
			}
		}
		switch how {
		case "stop":
			j.tell("stop")
			j.end()
		case "interrupt":
			require.NoError(s.t, j.cmd.Process.Signal(syscall.SIGINT))
			<-j.over
			require.Equal(s.t, 130, j.cmd.ProcessState.ExitCode(), j.err.String())
		case "kill":
			require.NoError(s.t, j.cmd.Process.Kill())
			<-j.over
		}
		for _, node := range s.Nodes()[:nodes] { // the first job's are there all the time
			s.await("the job is gone from "+node, func() bool { return s.agents(node) == 1 && len(s.processes(node)["rank"]) == 2 })
		}
		for i, end := range ends {
			end()
			require.NotContains(s.t, done[i].String(), "done", how)
		}
		require.True(s.t, intact())
	}
	s.root(s.Nodes()[0], "rm", "-r", home+"/work")
}
