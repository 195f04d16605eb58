package spawn

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/internal/job"
	"ibrun/test/waitfor"
)

// A signal that ends a job stops each rank first, so that none sees another one's end before it has
// the signal itself; any other is only sent.
func TestSignalThatEndsJobs(t *testing.T) {
	said := filepath.Join(t.TempDir(), "said")
	script := "exec >>" + said + "; trap 'echo usr1' USR1; trap 'echo term' TERM; trap 'echo cont' CONT; " +
		"echo up; while :; do sleep 0.01; done"
	forked := make(chan struct{})
	s := New(Config{
		Job:  &job.Job{Size: 2, Programs: []job.Program{{Count: 2, Argv: []string{"/bin/sh", "-c", script}, Dir: "/"}}},
		Node: job.Node{Host: "n", Ranks: 2}, Events: recorder(func(e Event) {
			if _, ok := e.(core.ForkDone); ok {
				close(forked)
			}
		}),
	})
	go s.Start()
	<-forked // a rank may print before the set knows it
	t.Cleanup(func() { s.Signal(syscall.SIGKILL) })
	times := func(word string) int {
		text, _ := os.ReadFile(said) // it is there when a rank is
		return strings.Count(string(text), word)
	}
	await := func(word string) {
		waitfor.Require(t, "both ranks print "+word, func() bool { return times(word) == 2 })
	}
	await("up")
	s.Signal(syscall.SIGUSR1)
	await("usr1")
	require.Zero(t, times("cont"))
	s.Signal(syscall.SIGTERM)
	await("term")
	await("cont")
}
