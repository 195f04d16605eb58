package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/job"
)

// What a launch that failed has started is said exactly, as far as it is known.
func TestRan(t *testing.T) {
	run := func(count uint32, kind job.StatusKind) job.StatusRun {
		return job.StatusRun{Count: count, Status: job.Status{Kind: kind}}
	}
	for _, c := range []struct {
		runs []job.StatusRun
		want string
	}{
		{nil, "the job was not started"},
		{[]job.StatusRun{run(8, job.NotRun)}, "the job was not started"},
		{[]job.StatusRun{run(4, job.Signaled), run(3, job.NotRun), run(1, job.Exited)}, "the job was ended, of which 5 of 8 ranks had been started"},
		{[]job.StatusRun{run(4, job.Lost), run(4, job.NotRun)}, "the job was ended, of which up to 4 of 8 ranks had been started"},
	} {
		require.Equal(t, c.want, ran(c.runs))
	}
}
