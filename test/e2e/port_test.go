package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/launch"
	"ibrun/test/product"
	"ibrun/test/waitfor"
)

// caller is a connection of this test to the address in PMI_PORT, where an agent accepts clients of PMI.
type caller struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func callPort(t *testing.T, at string) *caller {
	c, err := net.Dial("tcp", at)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return &caller{t, c, bufio.NewReader(c)}
}

func (c *caller) send(line string) {
	_, err := io.WriteString(c, line+"\n")
	require.NoError(c.t, err)
}

func (c *caller) expects(lines ...string) {
	for _, want := range lines {
		got, err := c.in.ReadString('\n')
		require.NoError(c.t, err, "want %s", want)
		require.Equal(c.t, want+"\n", got)
	}
}

// isHungUpOn waits until the agent closes the connection. It requires that the agent has sent nothing that the test has
// not read yet.
func (c *caller) isHungUpOn() {
	rest := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(c.in) // ReadAll fails if the agent resets the connection, which is allowed.
		rest <- string(b)
	}()
	require.Empty(c.t, waitfor.Receive(c.t, rest))
}

// TestPortStrangers connects to the address in PMI_PORT without being a rank, as any user of the machine can. It sends
// no PMI id, an id of no rank, or the id of a rank that has a connection already. The agent must close each of these
// connections, with or without an error reply. ibrun must not report such input as a PMI error of a rank.
func TestPortStrangers(t *testing.T) {
	dir := t.TempDir()
	client := filepath.Join(dir, "pmi")
	require.NoError(t, product.Program(client, "ibrun/test/pmi"))
	c := launch.Command(t, "--pmi-port", "-n", "3", "sh", "-c",
		`echo "$PMI_PORT $PMI_ID" > "$0/$PMI_RANK.part"; mv "$0/$PMI_RANK.part" "$0/$PMI_RANK"; until [ -e "$0/go" `+
			`]; do sleep 0.05; done; [ $PMI_RANK = 0 ] || exec "$1" -all`, dir,
		client)
	done := make(chan launch.Outcome, 1)
	go func() { done <- launch.Finish(t, c) }()
	var at string
	var id [3]string
	for rank := range id {
		name := filepath.Join(dir, fmt.Sprint(rank))
		waitfor.Require(t, "the rank has written its file", func() bool { _, err := os.Stat(name); return err == nil })
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		_, err = fmt.Sscan(string(b), &at, &id[rank])
		require.NoError(t, err)
	}
	require.NotEqual(t, id[0], id[1])

	silent := callPort(t, at)
	for range 70 {
		callPort(t, at)
	}
	silent.isHungUpOn() // The agent limits the connections that have sent no id, and closes the oldest one first.
	for _, wrong := range []string{"0", "1", "2147483647"} {
		s := callPort(t, at)
		s.send("cmd=initack pmiid=" + wrong)
		s.expects("cmd=initack rc=-1 msg=no_rank_has_this_PMI_ID")
		s.isHungUpOn()
	}
	for _, nonsense := range []string{"cmd=init pmi_version=1 pmi_subversion=1", "GET / HTTP/1.1",
		"cmd=initack pmiid=-1", "\x00\x01", strings.Repeat("x", 5000)} {
		s := callPort(t, at)
		s.send(nonsense)
		_, _ = s.in.ReadString('\n') // the error, where the protocol has one
		s.isHungUpOn()
	}

	first, second := callPort(t, at), callPort(t, at)
	first.send("cmd=initack pmiid=" + id[0])
	first.expects("cmd=initack rc=0", "cmd=set size=3", "cmd=set rank=0", "cmd=set debug=0")
	second.send("cmd=initack pmiid=" + id[0])
	second.expects("cmd=initack rc=-1 msg=another_program_speaks_for_this_rank_already")
	second.isHungUpOn()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	first.isHungUpOn() // The test has sent the id of rank 0, which has ended.
	o := <-done
	require.NotEqual(t, 0, o.Code, "the job must fail, because rank 0 ends while ranks 1 and 2 wait for it")
	require.Contains(t, o.Stderr, "rank 0: a program that came through PMI_PORT was refused")
	require.NotContains(t, o.Stderr, "pmi-1")
}

// TestPortOnlyWhenAsked counts the TCP ports on which agents listen. An agent must have one port for PMI if --pmi-port
// is given, and one for PMIx if --mpi allows PMIx. All ports must be on 127.0.0.1.
func TestPortOnlyWhenAsked(t *testing.T) {
	for asked, ports := range map[string]int{
		"--mpi mpich": 0, "--mpi auto": 1, "--mpi auto --pmi-port": 2, // a shell may run programs that use PMIx
	} {
		entry := mark(t) + strings.ReplaceAll(asked, " ", "")
		args := append(strings.Fields(asked), "--launcher", "local", "--hosts", "a,b", "-x", entry,
			"--stdin", "all", "sh", "-c", "read x || true")
		c := launch.Command(t, args...)
		stdin, err := c.StdinPipe()
		require.NoError(t, err)
		done := make(chan launch.Outcome, 1)
		go func() { done <- launch.Finish(t, c) }()
		waitfor.Require(t, "the ranks run", func() bool { return len(marked(entry)) == 2 })
		ours := listening(t, agents(":agent"))
		require.Len(t, ours, 2*ports, asked)
		for _, at := range ours {
			require.Contains(t, at, "0100007F:") // 127.0.0.1
		}
		stdin.Close()
		require.Equal(t, 0, (<-done).Code)
	}
}

// listening returns the addresses on which the processes pids listen, in the format of /proc/net/tcp.
func listening(t *testing.T, pids []int) (at []string) {
	b, err := os.ReadFile("/proc/self/net/tcp")
	require.NoError(t, err)
	require.Len(t, pids, 2)
	for _, pid := range pids {
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		require.NoError(t, err)
		for _, l := range links {
			socket, _ := os.Readlink(l)
			for line := range strings.Lines(string(b)) {
				f := strings.Fields(line)
				if f[3] == listens && socket == "socket:["+f[9]+"]" {
					at = append(at, f[1])
				}
			}
		}
	}
	return at
}

// listens is the state of a listening socket in /proc/net/tcp.
const listens = "0A"
