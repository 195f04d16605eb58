package e2e

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// piped runs a command beside a rank, with input.
func (r *running) piped(in io.Reader, args ...string) outcome {
	c := command(r.t, append([]string{"ctl", "pipe"}, args...)...)
	c.Env, c.Stdin = r.env, in
	return finish(r.t, c)
}

// A command beside a rank reads the caller's input, to its end, and what it prints comes back byte
// for byte. What is wrong is one line, and the job goes on.
func TestPipe(t *testing.T) {
	r := sleepers(t)
	sent := make([]byte, 1<<20) // four times the credit
	_, _ = rand.NewChaCha8([32]byte{}).Read(sent)
	got := r.piped(bytes.NewReader(sent), "5", "cat")
	require.Equal(t, 0, got.code, got.stderr)
	require.True(t, bytes.Equal(sent, got.stdout), "%d bytes came back of %d", len(got.stdout), len(sent))

	got = r.piped(strings.NewReader("x"), "3", "--", "sh", "-c", "echo $IBRUN_HOST $IBRUN_RANK >&2; wc -c; exit 4")
	require.Equal(t, 4, got.code)
	require.Equal(t, "1", strings.TrimSpace(string(got.stdout)))
	require.Equal(t, "b 3\nibrun: b, beside rank 3: code 4: it exited\n", got.stderr)

	got = r.piped(bytes.NewReader(sent), "0", "sh", "-c", "exec <&-; echo deaf")
	require.Equal(t, "deaf\n", string(got.stdout), "one that does not read is not waited for")
	got = r.piped(bytes.NewReader(sent), "0", "sh", "-c", "kill -9 $$")
	require.Equal(t, 137, got.code)
	require.Equal(t, "ibrun: a, beside rank 0: code 137: signal 9, killed\n", got.stderr)

	require.Contains(t, r.piped(nil, "6", "cat").stderr, "there is no rank 6")
	require.Contains(t, r.piped(nil, "0-1", "cat").stderr, "needs one rank")
	got = r.piped(nil, "2", "/nowhere/at/all")
	require.Equal(t, 127, got.code)
	require.Contains(t, got.stderr, "ibrun: b, beside rank 2: code 127: ")
	for _, args := range [][]string{{"pipe"}, {"pipe", "1"}, {"gdb"}, {"gdb", "1", "2"}, {"status", "--gdb", "x"}} {
		require.Equal(t, 2, r.ctl(args...).code, args)
	}
	r.until("6 ranks: runs", "status")
	r.end()
}

// debug sits at a terminal in which a debugger of a rank runs.
func (r *running) debug(rank, debugger string) *user {
	return sitWith(r.t, append(r.env, "IBRUN_GDB="+debugger), "ctl", "gdb", rank)
}

// pidOf is a rank's process.
func (r *running) pidOf(rank string) string {
	r.t.Helper()
	row := regexp.MustCompile(`(?m)^ *` + rank + ` +\w+ +(\d+) `).FindStringSubmatch(r.until("RANK", "ranks"))
	require.NotNil(r.t, row)
	return row[1]
}

// A debugger has a terminal on the node of its rank: the rank's process, keys, Ctrl-C, the size.
// When its user is gone, it gets SIGHUP, and can leave the rank as it was.
func TestGDB(t *testing.T) {
	r := sleepers(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "debugger")
	require.NoError(t, os.WriteFile(script, []byte(`trap 'echo interrupted' INT
trap 'resized=yes' WINCH
trap 'echo left >`+dir+`/left; exit 3' HUP
[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo "all three"
echo "$* $IBRUN_HOST" $(stty size)
while :; do
	read -r line || continue
	case $line in quit) exit 7 ;; size) echo size $resized $(stty size) ;; *) echo "got <$line>" ;; esac
done`), 0o600))
	u := r.debug("4", "bash "+script)
	u.sees("all three\r")
	u.sees("-p " + r.pidOf("4") + " c 30 100\r")
	u.gives()
	u.converses()
	u.types("quit\r")
	u.leaves(7)
	u.sees("ibrun: c, beside rank 4: code 7: it exited\r\n")

	u = r.debug("4", "bash "+script)
	u.sees("all three\r")
	require.NoError(t, u.ibrun.Process.Kill())
	_ = u.ibrun.Wait()
	eventually(t, patience, "it leaves", func() bool { _, err := os.Stat(dir + "/left"); return err == nil })

	u = r.debug("4", "nosuchdebugger")
	u.leaves(127)
	u.sees("--gdb COMMAND")

	u = r.debug("4", "bash "+script)
	u.sees("all three\r")
	u.gives()
	r.end()
	_ = u.ibrun.Wait()
	require.Contains(t, []int{3, 137}, u.ibrun.ProcessState.ExitCode(), "it may leave, or be killed with the job")
}

// One that is killed while its rank stands still leaves the rank running.
func TestGDBIsKilled(t *testing.T) {
	r := sleepers(t)
	pid := r.pidOf("1")
	script := filepath.Join(t.TempDir(), "debugger")
	require.NoError(t, os.WriteFile(script, []byte("kill -STOP $2; kill -KILL $$"), 0o600))
	got := r.ctl("gdb", "1", "--gdb", "sh "+script)
	require.Equal(t, 137, got.code, got.stderr)
	r.until(fmt.Sprintf(`(?m)^ +1 +a +%s +S `, pid), "ranks")
	r.end()
}

// gdb itself attaches, is interrupted, and leaves the rank running.
func TestGDBItself(t *testing.T) {
	r := sleepers(t)
	pid := r.pidOf("3")
	u := r.debug("3", "gdb -q -nx")
	u.sees("(gdb) ")
	u.types("set confirm off\rcontinue\r")
	u.sees("Continuing.")
	u.types("\x03")
	u.sees("SIGINT")
	u.types("quit\r")
	u.leaves(0)
	r.until(`(?m)^ +3 +b +`+pid+` +S `, "ranks")
	require.NoError(t, syscall.Kill(r.cmd.Process.Pid, 0))
	r.end()
}
