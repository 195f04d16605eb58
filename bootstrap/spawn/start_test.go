package spawn

import (
	"debug/elf"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/internal/job"
	"ibrun/internal/limits"
	"ibrun/internal/proc"
	"ibrun/test/executable"
)

// TestStatusOf uses wait statuses as wait(2) encodes them on Linux.
func TestStatusOf(t *testing.T) {
	require.Equal(t, job.Status{Code: 3}, StatusOf(syscall.WaitStatus(3<<8)))
	require.Equal(t, job.Status{Kind: job.Signaled, Code: 9}, StatusOf(syscall.WaitStatus(9)))
	require.Equal(t, job.Status{Kind: job.Signaled, Code: 11, Core: true}, StatusOf(syscall.WaitStatus(11|0x80)))
}

// TestLimits requires that s.limits contains only limits that would harm the agent and differ from its own. Resources
// that the kernel does not know are ignored.
func TestLimits(t *testing.T) {
	const files, addresses = 7, 9
	own := limits.Original()
	s := twoPrograms(func(j *job.Job) {
		j.Umask = 0o022
		j.Limits = []job.Limit{
			{Resource: addresses, Soft: own[addresses].Soft, Hard: own[addresses].Hard},
			{Resource: files, Soft: 64, Hard: own[files].Hard},
			{Resource: limits.Count, Soft: 1, Hard: 1},
		}
	})
	s.prepare()
	require.Equal(t, []proc.RLimit{{Resource: files, Soft: 64, Hard: own[files].Hard}}, s.limits)
	require.Equal(t, "unlimited", amount(limits.Infinity))
	require.Equal(t, "64", amount(64))
}

// More ranks than are started at a time: each of them runs or has failed, in their order, and the
// reason is known only when it was forked.
func TestManyStart(t *testing.T) {
	const half = 3 * mostStarting / 2
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	text, broken := filepath.Join(dir, "text"), filepath.Join(dir, "broken")
	require.NoError(t, executable.Write(text, []byte("exit 3\n")))
	require.NoError(t, executable.Write(broken, []byte(elf.ELFMAG+"nothing more")))
	events := make(chan Event, 10*half)
	s := New(Config{
		Job: &job.Job{Size: 2 * half, Programs: []job.Program{
			{Count: half, Argv: []string{broken}, Dir: "/"}, {First: half, Count: half, Argv: []string{text}, Dir: "/"},
		}},
		Node: job.Node{Host: "n", Ranks: 2 * half}, Events: recorder(func(ev Event) { events <- ev }),
	})
	go s.Start()
	done, ok := next(t, events).(core.ForkDone)
	require.True(t, ok)
	require.Len(t, done.Failed, half)
	for i, f := range done.Failed {
		require.Equal(t, job.Slot(i), f.Rank)
		require.EqualValues(t, 126, f.Code)
		require.Contains(t, f.Cause, broken)
	}
	ended := map[job.Slot]job.Status{}
	for len(ended) < half {
		if e, ok := next(t, events).(core.RankExited); ok {
			ended[e.Rank] = e.Status
		}
	}
	for r := job.Slot(half); r < 2*half; r++ {
		require.Equal(t, job.Status{Code: 3}, ended[r])
	}
}
