//go:build cluster

package ssh

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/launch"
	"ibrun/test/vcluster/cluster"
)

// compiled compiles the program name of cgo/tool/example with sanitizers for memory errors and undefined behavior. It
// returns the path of the executable, which all nodes see.
func compiled(t *testing.T, c *cluster.Cluster, name string) string {
	t.Helper()
	path := filepath.Join(c.Shared(), "tree-"+name)
	sources, err := filepath.Glob("../../../cgo/tool/*.c")
	require.NoError(t, err)
	args := append([]string{"-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE",
		"-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I../../../cgo/tool", "-o", path,
		"../../../cgo/tool/example/" + name + ".c", "../../../cgo/tool/example/net.c", "../../../cgo/pmgr/frame.c"}, sources...)
	out, err := exec.Command("gcc", args...).CombinedOutput()
	require.NoError(t, err, "packages gcc and libc6-dev are needed: %s", out)
	return path
}

// TestToolTree runs the example of a tool in cgo/tool/example. Its front end holds the ranks of a job and starts a tree
// of communication processes on additional hosts. These processes get the topology, hosts and ports of the tree. The
// leaves of the tree count the ranks on their nodes, and the sum must arrive at the front end.
func TestToolTree(t *testing.T) {
	parallel(t, working)
	c := shared(t, 4)
	front, node := compiled(t, c, "front"), compiled(t, c, "node")
	dir := launch.SocketFolder(t)
	for _, fanout := range []string{"1", "2"} {
		got := run(t, c, "env", "XDG_RUNTIME_DIR="+dir, "IBRUN="+program, front, fanout, node, "node0004,node0002",
			"node0001,node0003", "hostname").wait()
		require.Equal(t, 0, got.code, got.raw)
		lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
		require.Equal(t, "4 processes in the tree; ranks below it: 2 of 2", lines[0])
		rest := lines[1:] // the output of the ranks, which are released when the tree is complete
		slices.Sort(rest)
		require.Equal(t, []string{"node0001", "node0002", "node0003", "node0004"}, rest)
	}
	requireNothingLeft(t, c)
}

// mpir is a gdb script that uses the MPIR interface. It sets MPIR_being_debugged, continues to the breakpoint
// MPIR_Breakpoint and prints the table of processes. It then creates the file table in the folder %[1]s, waits until
// the file go exists there, and executes the command %[2]s.
const mpir = `set pagination off
set confirm off
set language c
handle SIGURG nostop noprint pass
starti
set var *(int*)&MPIR_being_debugged = 1
break *(char*)&MPIR_Breakpoint
continue
printf "MPIR %%d state %%d\n", *(int*)&MPIR_proctable_size, *(int*)&MPIR_debug_state
set $t = *(char**)&MPIR_proctable
set $i = 0
while $i < *(int*)&MPIR_proctable_size
  printf "MPIR %%s %%s %%d\n", *(char**)($t + 24 * $i), *(char**)($t + 24 * $i + 8), *(int*)($t + 24 * $i + 16)
  set $i = $i + 1
end
shell touch %[1]s/table; while [ ! -e %[1]s/go ]; do sleep 0.1; done
delete
%[2]s
`

// TestMPIR drives ibrun with gdb, as an MPIR debugger does. When the table is complete, the ranks on two nodes must be
// stopped before their first instruction, and gdb must be able to attach to them on their nodes. They must run when
// the debugger lets ibrun go on. If the debugger is killed instead, the job must end and leave no stopped rank.
func TestMPIR(t *testing.T) {
	parallel(t, working)
	_, err := exec.LookPath("gdb")
	require.NoError(t, err, "package gdb is needed")
	c := shared(t, 4)
	for _, then := range []string{"continue", "kill"} {
		dir := filepath.Join(c.Shared(), then)
		require.NoError(t, os.Mkdir(dir, 0o755))
		require.NoError(t, os.WriteFile(dir+"/commands", fmt.Appendf(nil, mpir, dir, "continue"), 0o644))
		d := run(t, c, "gdb", "-q", "-batch", "-x", dir+"/commands", "--args", program, "--hosts", "node[0001-0002]:1",
			"--bind-to", "none", "sleep", "0.05")
		await(t, "the table is complete", func() bool { _, err := os.Stat(dir + "/table"); return err == nil })
		table := regexp.MustCompile(`MPIR (\S+) (\S+/sleep) (\d+)\n`).FindAllStringSubmatch(d.out.String(), -1)
		require.Len(t, table, 2, d.out.String())
		require.Contains(t, d.out.String(), "MPIR 2 state 1\n")
		for i, row := range table {
			require.Equal(t, fmt.Sprintf("node%04d", i+1), row[1])
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			out, err := c.Exec(ctx, row[1], "gdb", "-q", "-batch", "-p", row[3],
				"-ex", "info proc mappings").CombinedOutput()
			cancel()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "/sleep", "gdb must see the program of the rank")
			require.NotContains(t, string(out), "libc.so", "the rank must not have loaded libc yet")
			status, err := os.ReadFile(c.Root(row[1]) + "/proc/" + row[3] + "/status")
			require.NoError(t, err)
			require.Contains(t, string(status), "State:\tT", "the rank must still be stopped after gdb has detached")
		}
		if then == "kill" {
			require.NoError(t, d.cmd.Process.Kill())
		}
		require.NoError(t, os.WriteFile(dir+"/go", nil, 0o644))
		got := d.wait()
		if then == "continue" {
			require.Equal(t, 0, got.code, got.raw)
			require.Contains(t, got.stdout, "exited normally")
		}
		await(t, "no rank is left", func() bool {
			return !slices.ContainsFunc(table, func(row []string) bool {
				all, err := c.Processes(row[1])
				require.NoError(t, err)
				return slices.ContainsFunc(all, func(p cluster.Proc) bool {
					return strings.HasPrefix(strings.Join(p.Argv, " "), "sleep 0.05")
				})
			})
		})
	}
}
