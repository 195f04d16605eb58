//go:build cluster

package ssh

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

// slowHead puts a shell script named head before head(1) in the PATH of a login shell on a node. The shell is that of
// the user with the directory home. If the arguments of the script match the shell pattern called, it creates the file
// reached in home and runs the command first. It then executes head(1). slowHead also removes any copy of ibrun from
// home.
func slowHead(c *cluster.Cluster, node, home, called, first string) error {
	script := fmt.Sprintf(`#!/bin/sh\ncase "$*" in %s) : >%s/reached; %s;; esac\n`, called, home, first)
	command := fmt.Sprintf("cd %s; rm -rf reached .cache/ibrun; mkdir -p slow; printf '%s' >slow/head; "+
		`echo 'exec /usr/bin/head "$@"' >>slow/head; chmod 755 slow/head; `+
		`echo 'PATH=%s/slow:$PATH' >.bashrc`, home, script, home)
	out, err := c.Exec(context.Background(), node, "sh", "-ec", command).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// ibrun runs a shell script on a node to receive its binary. These shell patterns match the arguments with which that
// script calls head: to read the line that announces the binary, to test whether a folder has enough space, and to read
// the binary.
const headLine, headRoom, headBinary = `"-n 1"`, `"-c "*zero`, `"-c "*[0-9]`

// shells returns the command lines of the processes of sessions on a node.
func shells(c *cluster.Cluster, node string) (found []string) {
	all, _ := c.Processes(node)
	for _, p := range all {
		line := strings.Join(p.Argv, " ")
		if strings.Contains(line, "ibrun") || strings.Contains(line, "head") || strings.HasPrefix(line, "sleep") {
			found = append(found, line)
		}
	}
	return found
}

// TestHungShells lets the login shell of a node hang while ibrun sends the binary. The launch must end at its time
// limit. All processes of the session must end, even if the node is cut off.
func TestHungShells(t *testing.T) {
	parallel(t, waiting)
	c := cluster.Require(t, cluster.Config{Nodes: 8})
	nodes := c.Nodes()
	for _, ssh := range []string{"native", "exec"} {
		for _, h := range []struct {
			called, first string
			cut           bool
		}{
			{headLine, "exec sleep 999", false}, {headRoom, "exec sleep 999", false}, {headBinary, "exec sleep 999", false},
			{headBinary, "until test -e /root/cut; do sleep 0.1; done", true},
		} {
			node := nodes[0]
			nodes = nodes[1:]
			t.Run(fmt.Sprintf("%s, %s, cut %v", h.called, ssh, h.cut), func(t *testing.T) {
				t.Parallel()
				require.NoError(t, slowHead(c, node, "/root", h.called, h.first))
				j := start(t, c, "--ssh", ssh, "--launch-timeout", "20", "--hosts", node, "true")
				if h.cut {
					await(t, "the binary is being sent", func() bool {
						return c.Exec(t.Context(), node, "test", "-e", "/root/reached").Run() == nil
					})
					require.NoError(t, c.Cut(node))
					require.NoError(t, c.Exec(t.Context(), node, "touch", "/root/cut").Run())
				}
				o := j.wait()
				require.Equal(t, 125, o.code, o.stderr)
				require.Regexp(t, `node\d+ .* ship .*(no answer from it|it took no more of the binary) in 20s`, o.stderr)
				requireEmptied(t, c, node)
			})
		}
	}
}

// requireEmptied waits until no session has a process on a node.
func requireEmptied(t *testing.T, c *cluster.Cluster, node string) {
	t.Helper()
	await(t, "no session has a process on "+node, func() bool { return len(shells(c, node)) == 0 })
}

// TestHungShellsAreEnded lets the login shell of a user other than root hang, while ibrun sends the binary or in the
// start-up file of the shell. sshd forwards signals to the sessions of such users, so all processes of the session must
// end.
func TestHungShellsAreEnded(t *testing.T) {
	parallel(t, waiting)
	c := cluster.Require(t, cluster.Config{Nodes: 1})
	const home = "/var/tmp/worker"
	for file, line := range map[string]string{
		"passwd": "worker:x:1234:1234::" + home + ":/bin/bash\n", "shadow": "worker:*:19000:0:99999:7:::\n",
	} {
		f, err := os.OpenFile(filepath.Join(c.Etc(), file), os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(line)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	on(t, c, "node0001", "mkdir", home)
	for _, called := range []string{headLine, headRoom, headBinary, ""} {
		t.Run(called, func(t *testing.T) {
			phase := "ship"
			if called != "" {
				require.NoError(t, slowHead(c, "node0001", home, called, "exec sleep 999"))
			} else {
				on(t, c, "node0001", "sh", "-c", "echo sleep 999 >"+home+"/.bashrc")
				phase = "start"
			}
			on(t, c, "node0001", "chown", "-R", "1234:1234", home)
			o := ibrun(t, c, "--launch-timeout", "8", "--hosts", "worker@node0001", "true")
			require.Equal(t, 125, o.code, o.stderr)
			require.Regexp(t, `node0001 .* `+phase+` .*(no answer from it|it took no more of the binary) in 8s`,
				o.stderr)
			requireEmptied(t, c, "node0001")
		})
	}
}

// TestInterruptedWhileShipping interrupts ibrun while it sends the binary to nodes. No incomplete copy may be left on a
// node.
func TestInterruptedWhileShipping(t *testing.T) {
	parallel(t, waiting)
	c := cluster.Require(t, cluster.Config{Nodes: 2, RSH: true})
	for _, session := range []string{"--ssh native", "--ssh exec", "--launcher rsh"} {
		for name, called := range map[string]string{"when it makes room": headRoom,
			"when sent the binary": headBinary} {
			t.Run(name+", "+session, func(t *testing.T) {
				require.NoError(t, slowHead(c, "node0002", "/root", called, "sleep 1"))
				j := start(t, c, append(strings.Fields(session), "--hosts", "node[0001-0002]", "--tree", "flat",
					"true")...)
				await(t, "the binary is being sent", func() bool {
					return c.Exec(t.Context(), "node0002", "test", "-e", "/root/reached").Run() == nil
				})
				require.NoError(t, j.cmd.Process.Signal(os.Interrupt))
				o := j.wait()
				require.Equal(t, 130, o.code, o.stderr)
				requireEmptied(t, c, "node0002")
				out, _ := c.Exec(t.Context(), "node0002", "sh", "-c", "ls -A /root/.cache/ibrun /tmp /dev/shm").Output()
				require.NotContains(t, string(out), ".tmp")
				require.NotContains(t, string(out), "ibrun.")
			})
		}
	}
}

// TestOthersFileOnANode lets another user of a node put a program at the path that ibrun has on the front, or at the
// path of the copy. ibrun must not execute that program.
func TestOthersFileOnANode(t *testing.T) {
	parallel(t, working)
	const stranger = 4321
	dir := filepath.Dir(program)
	trap := func(dir, name string) string {
		at := filepath.Join(dir, name)
		return fmt.Sprintf(`printf '#!/bin/sh\nid -u >/dev/shm/caught\nexec sleep 9\n' >%s; chmod 755 %s; `, at, at)
	}
	for _, c := range []struct{ name, root, stranger string }{
		{"a folder of his own", "", "mkdir -p " + dir + "; " + trap(dir, "ibrun")},
		{"a link of his own", "", "mkdir /tmp/his; " + trap("/tmp/his", "ibrun") + "ln -s /tmp/his " + dir},
		{"a folder of ours that all may write", "mkdir " + dir + "; chmod 777 " + dir, trap(dir, "ibrun")},
		{"a cache of his own", "mkdir -m 777 /root/.cache; chmod 755 /root",
			"mkdir /root/.cache/ibrun; " + trap("/root/.cache/ibrun", "ibrun-"+buildID(t))},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes := cluster.Require(t, cluster.Config{Nodes: 1})
			for _, by := range []struct {
				user    int
				command string
			}{{0, c.root}, {stranger, c.stranger}} {
				as := fmt.Sprint(by.user)
				on(t, nodes, "node0001", "setpriv", "--reuid="+as, "--regid="+as, "--clear-groups",
					"sh", "-ec", by.command)
			}
			o := ibrun(t, nodes, "--hosts", "node0001", "hostname")
			require.Equal(t, 0, o.code, o.stderr)
			require.Equal(t, "node0001\n", o.stdout)
			require.Error(t, nodes.Exec(t.Context(), "node0001", "test", "-e", "/dev/shm/caught").Run(),
				"ibrun has executed the other user's program")
		})
	}
}

// buildID returns the build id that ibrun --version prints. It is part of the name of a copy on a node.
func buildID(t *testing.T) string {
	out, err := exec.Command(program, "--version").Output()
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(out), "build ")
	require.True(t, found)
	return rest[:16]
}
