package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
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
		{[]job.StatusRun{run(4, job.Signaled), run(3, job.NotRun), run(1, job.Exited)},
			"the job was ended, of which 5 of 8 ranks had been started"},
		{[]job.StatusRun{run(4, job.Lost), run(4, job.NotRun)},
			"the job was ended, of which up to 4 of 8 ranks had been started"},
	} {
		require.Equal(t, c.want, ran(c.runs))
	}
}

// What nodes say of themselves cannot command the user's terminal, nor show
// something else than what is there: every kind of message, and data.
func TestReportIsPlain(t *testing.T) {
	const evil = "n1\x1b[2J\x9b2J\u009b2J\u202e\r\nibrun: all is well"
	var b strings.Builder
	r := &Reporter{To: &b}
	r.Event(wire.Fault{What: wire.FaultLaunch, Nodes: 1, Host: evil, Parent: evil, Phase: evil, Cause: evil})
	r.Event(wire.Fault{What: wire.FaultAbort, Nodes: 1, Host: evil, Cause: evil})
	r.Event(wire.Waiting{Items: []wire.SlowSession{{Host: evil, Phase: evil}}})
	r.Event(rankwire.Notice{Host: evil, Text: evil})
	r.Event(wire.Placed{Host: evil, Picture: evil, Ranks: wire.NewPlacements(wire.Placement{HCA: evil, Drawing: evil})})
	r.tail(evil)
	r.JSON = true
	r.Event(wire.Placed{Host: evil, Ranks: wire.NewPlacements(wire.Placement{HCA: evil, Drawing: evil})})
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		require.False(t, strings.HasPrefix(line, "ibrun: all is well"), "%q begins a line of its own", line)
		for _, c := range line {
			require.False(t, c < 0x20 || c >= 0x7f && c < 0xa0 || c == 0x202e || c == 0xfffd, "%q in %q", c, line)
		}
	}
	require.GreaterOrEqual(t, strings.Count(b.String(), "\n"), 8)
}
