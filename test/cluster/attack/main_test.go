//go:build cluster

// Package attack runs jobs of one user on the virtual cluster while another user
// with a shell on every node, and a machine of its own on the network, tries to read,
// change or end them. Each attack is shown to work against something first.
package attack

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/executable"
	"ibrun/test/product"
	"ibrun/test/screen"
	"ibrun/test/vcluster/cluster"
)

// program is ibrun as it ships.
var program string

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == ":as" {
		os.Exit(roles[os.Args[2]](os.Args[3:]))
	}
	os.Exit(product.Run(m, &program))
}

// The two users. The attacker has root on the last node, a machine of its own, and
// no way to the victim's keys.
const (
	victim, victimID     = "alice", "4001"
	attacker, attackerID = "mallory", "4002"
)

const (
	nodes = 3 // of the job
	home  = "/run/" + victim
	own   = "node0004" // the attacker's

	scratch = "/run/scratch" // a folder of everybody, on the front
)

// patience bounds every wait, longest every job: the first one runs during all attacks.
const (
	patience = 3 * time.Minute
	longest  = 10 * time.Minute
)

// stage is a cluster with two users, and this program where all nodes see it.
type stage struct {
	t *testing.T
	*cluster.Cluster
	dir   string // that all hosts see, and all users
	self  string // this program
	ibrun string // on the front, in the victim's home
}

func newStage(t *testing.T) *stage {
	dir, err := os.MkdirTemp("", "attack-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	s := &stage{t: t, dir: dir, Cluster: cluster.Require(t, cluster.Config{Nodes: nodes + 1, Share: []string{dir}})}
	s.addUser(victim, victimID, home)
	s.addUser(attacker, attackerID, "/")
	s.self = s.share("/proc/self/exe", "attack.test")
	binary := s.share(program, "ibrun") // the front alone sees it by another path
	const key = home + "/.ssh/id_ed25519"
	prepare := "install -d -m 755 -o " + victimID + " -g " + victimID + " " + home + " && " +
		"install -d -m 700 -o " + victimID + " -g " + victimID + " " + home + "/.ssh && " +
		"install -m 600 -o " + victimID + " -g " + victimID + " /root/.ssh/id_ed25519 " + key
	for _, node := range s.Nodes()[:nodes] {
		s.root(node, "sh", "-c", prepare)
	}
	s.ibrun = home + "/bin/ibrun"
	front := prepare + " && install -D " + binary + " " + s.ibrun + " && chown -R " + victimID + " " + home +
		" && mkdir -m 1777 " + scratch
	out, err := s.Command(t.Context(), "sh", "-c", front).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Remove(binary))
	return s
}

// addUser is useradd, for all hosts.
func (s *stage) addUser(name, id, home string) {
	for file, line := range map[string]string{
		"passwd": fmt.Sprintf("%s:x:%s:%s::%s:/bin/bash\n", name, id, id, home),
		"group":  fmt.Sprintf("%s:x:%s:\n", name, id),
		"shadow": fmt.Sprintf("%s:*:19000:0:99999:7:::\n", name),
	} {
		f, err := os.OpenFile(filepath.Join(s.Etc(), file), os.O_WRONLY|os.O_APPEND, 0)
		require.NoError(s.t, err)
		_, err = f.WriteString(line)
		require.NoError(s.t, err)
		require.NoError(s.t, f.Close())
	}
}

// share copies a program to where all nodes see it.
func (s *stage) share(from, name string) string {
	b, err := os.ReadFile(from)
	require.NoError(s.t, err)
	path := filepath.Join(s.dir, name)
	require.NoError(s.t, executable.Write(path, b))
	return path
}

// as is a command line for one of the users.
func as(id string, args ...string) []string {
	who := []string{"setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups", "--inh-caps=-all", "--"}
	if id == victimID {
		who = append(who, "env", "-i", "HOME="+home, "USER="+victim, "LOGNAME="+victim, "PATH=/usr/bin:/bin")
	}
	return append(who, args...)
}

// root runs a command on a node as root, which must succeed.
func (s *stage) root(node string, args ...string) string {
	s.t.Helper()
	out, err := s.exec(node, args...)
	require.NoError(s.t, err, "%s: %s: %s", node, args, out)
	return out
}

// by runs a command on a node as one of the users.
func (s *stage) by(id, node string, args ...string) (string, error) {
	return s.exec(node, as(id, args...)...)
}

// succeed runs a command on a node as the user id and returns its output. It fails the test if the command fails.
func (s *stage) succeed(id, node string, args ...string) string {
	s.t.Helper()
	return s.root(node, as(id, args...)...)
}

// exec runs a command on a node, not for longer than patience.
func (s *stage) exec(node string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	c := s.Exec(ctx, node, args...)
	c.WaitDelay = 30 * time.Second // a process that was killed holds its output until it has the time to end
	out, err := c.CombinedOutput()
	return string(out), err
}

// attack runs one of the attacker's tools on a node.
func (s *stage) attack(node, tool string, args ...string) string {
	s.t.Helper()
	return s.succeed(attackerID, node, append([]string{s.self, ":as", tool}, args...)...)
}

// begin starts a tool that runs until the test ends it, as the attacker, or as
// root on the attacker's own machine.
func (s *stage) begin(node, tool string, args ...string) (out *screen.Screen, end func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	line := append([]string{s.self, ":as", tool}, args...)
	if node != own {
		line = as(attackerID, line...)
	}
	c := s.Exec(ctx, node, line...)
	out = &screen.Screen{}
	c.Stdout, c.Stderr = out, out
	require.NoError(s.t, c.Start())
	s.await("it has begun", func() bool { return strings.Contains(out.String(), "begun\n") })
	return out, func() {
		cancel()
		_ = c.Wait()
	}
}

// await waits for something, in the test's own goroutine: ok may fail the test.
func (s *stage) await(what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); <-time.After(50 * time.Millisecond) { // a look may cost much
		require.True(s.t, time.Now().Before(deadline), what)
	}
}

// job is an ibrun of the victim's.
type job struct {
	s     *stage
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   screen.Screen
	err   screen.Screen
	over  chan struct{}
}

// run starts ibrun as the victim, on the front.
func (s *stage) run(args ...string) *job {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	s.t.Cleanup(cancel)
	j := &job{s: s, cmd: s.Command(ctx, as(victimID, append([]string{s.ibrun}, args...)...)...),
		over: make(chan struct{})}
	j.cmd.Dir = "/"
	j.cmd.Stdout, j.cmd.Stderr = &j.out, &j.err
	var err error
	j.stdin, err = j.cmd.StdinPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, j.cmd.Start())
	go func() {
		defer close(j.over)
		_ = j.cmd.Wait()
	}()
	return j
}

// on is run on the job's nodes.
func (s *stage) on(args ...string) *job {
	return s.run(append([]string{"--hosts", fmt.Sprintf("node[0001-%04d]", nodes), "--iface", "eth0"}, args...)...)
}

// write gives the first rank a line.
func (j *job) write(line string) {
	_, err := io.WriteString(j.stdin, line+"\n")
	require.NoError(j.s.t, err)
}

// order gives the first rank a line, and tells whether the job has done it since.
func (j *job) order(what string) (done func() bool) {
	answer := "done" + what + "\n"
	before := strings.Count(j.out.String(), answer)
	j.write(what)
	return func() bool { return strings.Count(j.out.String(), answer) > before }
}

// do has the job do something.
func (j *job) do(what string) {
	j.s.t.Helper()
	j.until(what, j.order(what))
}

// await waits until the job has printed something.
func (j *job) await(text string) {
	j.s.t.Helper()
	j.until(text, func() bool { return strings.Contains(j.out.String(), text) })
}

// until waits while the job runs.
func (j *job) until(what string, ok func() bool) {
	j.s.t.Helper()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-j.over:
			if ok() {
				return
			}
			require.FailNow(j.s.t, "the job has ended", "%s: %s%s", what, j.out.String(), j.err.String())
		case <-deadline:
			require.FailNow(j.s.t, "the job has not done it", "%s: %s%s", what, j.out.String(), j.err.String())
		}
	}
}

// end waits for the end, which is to be a good one, and returns what was printed.
func (j *job) end() string {
	j.s.t.Helper()
	j.stdin.Close()
	<-j.over
	require.Equal(j.s.t, 0, j.cmd.ProcessState.ExitCode(), "%s%s", j.out.String(), j.err.String())
	return j.out.String()
}

// processes are the victim's on a node: reaper, agent, ranks.
func (s *stage) processes(node string) (of map[string][]cluster.Proc) {
	all, err := s.Processes(node)
	require.NoError(s.t, err)
	of = map[string][]cluster.Proc{}
	for _, p := range all {
		st, err := os.Stat(fmt.Sprintf("/proc/%d/fd/.", p.Pid))
		if err != nil || len(p.Argv) < 2 {
			continue
		}
		if uid := ownerOf(st); uid != victimID {
			continue
		}
		switch {
		case p.Argv[1] == ":reaper", p.Argv[1] == ":agent":
			of[p.Argv[1]] = append(of[p.Argv[1]], p)
		case p.Argv[1] == ":as":
			of["rank"] = append(of["rank"], p)
		}
	}
	return of
}

// port is where a rank of a node listens, as everybody there can see: in a table
// of procfs, by its owner and a state.
//
// Ports of the loopback interface, such as an agent's for clients of PMIx, are not among them.
func (s *stage) ports(node, table, state string) (ports []int) {
	for line := range strings.Lines(s.root(node, "cat", "/proc/net/"+table)) {
		f := strings.Fields(line)
		if len(f) > 7 && f[7] == victimID && f[3] == state {
			address, hex, _ := strings.Cut(f[1], ":")
			if address == loopback {
				continue
			}
			port, err := strconv.ParseUint(hex, 16, 16)
			require.NoError(s.t, err)
			ports = append(ports, int(port))
		}
	}
	return ports
}

// loopback is 127.0.0.1 in the kernel's tables of sockets.
const loopback = "0100007F"
