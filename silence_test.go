package ibrun_test

import (
	"log/slog"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// records is a writer for a logger, which hands over one record at a time.
type records chan string

func (r records) Write(p []byte) (int, error) {
	r <- string(p)
	return len(p), nil
}

// What the user of ibrun is to know goes to the agent; the program's logger has it too.
func TestLogger(t *testing.T) {
	t.Setenv("IBRUN_HCA", "")
	t.Setenv("IBRUN_LIBIBVERBS", "libibverbs-missing.so.1")
	log := make(records, 8)
	with := ibrun.WithLogger(slog.New(slog.NewTextHandler(log, nil)))
	_, agent := withAgent(t, 1, job.Transport{Fabric: "ib"}, with)
	notice, ok := agent.next().(rankwire.Notice)
	require.True(t, ok)
	require.Regexp(t, `^--fabric ib is not used by a job of one node, and would not work: .`, notice.Text)
	require.Contains(t, <-log, "level=WARN msg="+strconv.Quote(notice.Text))
	require.Contains(t, <-log, `level=INFO msg="joined the job" rank=0 size=1 job=j`)
	agent.conn.Close()
	require.Contains(t, <-log, `level=ERROR msg="the agent of this node is lost"`)
}
