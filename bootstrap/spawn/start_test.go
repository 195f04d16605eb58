package spawn

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/limits"
	"ibrun/job"
)

// wait's words for an end, as wait(2) packs them on Linux.
func TestStatusOf(t *testing.T) {
	require.Equal(t, job.Status{Code: 3}, StatusOf(syscall.WaitStatus(3<<8)))
	require.Equal(t, job.Status{Kind: job.Signaled, Code: 9}, StatusOf(syscall.WaitStatus(9)))
	require.Equal(t, job.Status{Kind: job.Signaled, Code: 11, Core: true}, StatusOf(syscall.WaitStatus(11|0x80)))
}

// A limit that the agent has already costs nothing; one that would harm the agent
// is left to the stub; a resource that this kernel does not know is nothing.
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
	require.Equal(t, []string{fmt.Sprintf("7:64:%d", own[files].Hard)}, s.stub)
	require.Equal(t, "unlimited", amount(limits.Infinity))
	require.Equal(t, "64", amount(64))
}

// The stub's own words are checked before anything is set.
func TestLimitStubRefuses(t *testing.T) {
	require.Equal(t, 125, LimitMain([]string{"7:64:64", "/bin/true"}))
	require.Equal(t, 125, LimitMain([]string{"7:64", "/bin/true", "true"}))
}
