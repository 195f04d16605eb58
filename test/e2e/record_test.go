package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A job that fails leaves a record of its agents, and ibrun decides the same again from it.
func TestRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record")
	o := ibrun(t, "--record", file, "-x", "SECRET=hidden", "-n", "3", "--launcher", "local", "--hosts", "a,b,c",
		"--tree", "chain", "sh", "-c", "printf %s%s prin ted; exit $((IBRUN_RANK == 2 ? 7 : 0))")
	require.Equal(t, 7, o.code, o.stderr)
	require.Contains(t, o.stderr, "hint: ibrun --replay "+file)
	record, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(record), "hidden")
	require.NotContains(t, string(record), "printed")
	again := ibrun(t, "--replay", file)
	require.Equal(t, 0, again.code, again.stderr)
	text := string(again.stdout)
	require.Equal(t, 4, strings.Count(text, "\nagent ")+1, text)
	for _, words := range []string{
		"agent a, node 0\n", "RankExited {Rank:2 ", "-1 <- Exit ", "Done {Outcome:{Code:7 ",
	} {
		require.Contains(t, text, words)
	}
}

// A job that succeeds leaves none.
func TestRecordOfASuccess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record")
	o := ibrun(t, "--record", file, "-n", "2", "true")
	require.Equal(t, 0, o.code, o.stderr)
	require.Empty(t, o.stderr)
	require.NoFileExists(t, file)
}

// The record of an agent that is killed is lost with it; the others' show what became of it.
func TestRecordOfALoss(t *testing.T) {
	file, mark := filepath.Join(t.TempDir(), "record"), mark(t)
	cmd := command(t, "--record", file, "-n", "3", "--launcher", "local", "--hosts", "a,b,c", "--tree", "flat",
		"sleep", "1000")
	cmd.Env = append(os.Environ(), mark)
	require.NoError(t, cmd.Start())
	eventually(t, 2*time.Minute, "all is up", func() bool { return len(marked(mark)) >= 1+6+3 })
	require.NoError(t, syscall.Kill(agents(":agent")[1], syscall.SIGKILL))
	_ = cmd.Wait()
	again := ibrun(t, "--replay", file)
	require.Equal(t, 0, again.code, again.stderr)
	require.Equal(t, 3, strings.Count("\n"+string(again.stdout), "\nagent "))
	require.Contains(t, string(again.stdout), "LinkLost {Link:")
}

// What is no record is refused.
func TestReplayRefuses(t *testing.T) {
	dir := t.TempDir()
	for text, why := range map[string]string{"": "no record", "ibrun flight 1\nx\n": "this is build"} {
		file := filepath.Join(dir, "file")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		o := ibrun(t, "--replay", file)
		require.NotZero(t, o.code)
		require.Contains(t, o.stderr, why)
	}
}
