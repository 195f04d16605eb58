//go:build soak

package faults

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/test/vcluster/cluster"
)

var (
	spared      = flag.Duration("spared", 10*time.Minute, "duration of each subtest of TestSpared")
	sparedEvery = flag.Duration("spared-every", 30*time.Second, "time between two pauses in TestSpared")
)

// shortest and longest limit the random length of a pause. ibrun promises to survive pauses of less than five seconds.
const (
	shortest = 500 * time.Millisecond
	longest  = 4900 * time.Millisecond
)

// TestSpared cuts nodes off and pauses processes, each time for less than five seconds. No agent and no rank may be
// lost, and no error may be printed. The second job restarts ranks and repairs its tree, and so gives a host up after
// seven seconds of silence.
func TestSpared(t *testing.T) {
	for i, options := range []string{"", "--on-failure restart"} {
		t.Run(fmt.Sprintf("job%d", i), func(t *testing.T) {
			t.Parallel()
			newSite(t, cluster.Config{Nodes: 8}).spare(t, strings.Fields(options), rand.New(rand.NewPCG(*seed, uint64(i))))
		})
	}
}

// spare runs a job on eight nodes in a tree of depth three, and pauses processes or connections until the time of
// -spared has passed. If a busy machine makes a pause longer than five seconds, the job need not survive, so spare
// starts a new job. It fails the test if this concerns more than a quarter of the pauses.
func (s *site) spare(t *testing.T, options []string, rng *rand.Rand) {
	count, long := map[string]int{}, 0
	for end := time.Now().Add(*spared); time.Now().Before(end); {
		if !s.spareOne(t, options, rng, end, count) {
			long++
		}
	}
	sum := 0
	for _, n := range count {
		sum += n
	}
	t.Logf("%v: %v, of which %d took longer than was meant", *spared, count, long)
	require.LessOrEqual(t, long, sum/4, "pauses that took too long: is the machine busy?")
}

// spareOne runs one job with random pauses until end. It adds the number of pauses of each kind to count. If a pause
// takes longer than five seconds, spareOne ends the job early and returns false.
func (s *site) spareOne(t *testing.T, options []string, rng *rand.Rand, end time.Time, count map[string]int) bool {
	const ranks = 8
	words := append([]string{program, "--tree", "kary:2", "--hosts", "node[0001-0008]", "-n", "8"}, options...)
	j, err := s.start(append(words, "sh", "-c", "echo up; while sleep 0.2; do echo $RANK; done"))
	require.NoError(t, err)
	require.True(t, s.until(func() bool { return j.up() == ranks }), s.output(j))
	what := "nothing"
	for time.Now().Before(end) {
		host := fmt.Sprintf("node%04d", 1+rng.IntN(ranks))
		pause := shortest + time.Duration(rng.Int64N(int64(longest-shortest)))
		kind := pick(rng, "cut", "cut", "freeze", "stop an agent", "stop the root")
		what = fmt.Sprintf("%s of %s for %v", kind, host, pause.Round(time.Millisecond))
		count[kind]++
		next, began := time.After(*sparedEvery), time.Now()
		require.NoError(t, s.pause(kind, host, pause), what)
		if took := time.Since(began); took > longest+100*time.Millisecond {
			t.Logf("%s, which took %v", what, took.Round(time.Millisecond))
			j.interrupt()
			require.True(t, s.until(j.over), s.output(j))
			return false
		}
		select {
		case <-next:
		case <-j.ended:
		}
		require.False(t, j.over(), "it has ended after %s:\n%s", what, s.output(j))
		text, err := os.ReadFile(j.err)
		require.NoError(t, err)
		require.NotContains(t, string(text), "lost", what)
	}
	require.Len(t, s.of(rank, ""), ranks, "ranks after %s", what)
	require.Equal(t, ranks, j.up(), "starts after %s", what)
	j.interrupt()
	require.True(t, s.until(j.over), s.output(j))
	require.Equal(t, 130, j.code(), s.output(j))
	return true
}

// pause applies a fault to a host, and reverts it after a time.
func (s *site) pause(kind, host string, d time.Duration) error {
	wait := func() { <-time.After(d) } // the fault's length
	switch kind {
	case "cut":
		if err := s.Cut(host); err != nil {
			return err
		}
		wait()
		return s.Heal(host)
	case "freeze":
		if err := s.Freeze(host); err != nil {
			return err
		}
		wait()
		return s.Thaw(host)
	case "stop an agent":
		p := s.of(agent, host)
		if len(p) == 0 {
			return fmt.Errorf("no agent on %s", host)
		}
		if err := s.signal(p[0], unix.SIGSTOP); err != nil {
			return err
		}
		wait()
		return s.signal(p[0], unix.SIGCONT)
	default:
		if err := s.job.cmd.Process.Signal(unix.SIGSTOP); err != nil {
			return err
		}
		wait()
		return s.job.cmd.Process.Signal(unix.SIGCONT)
	}
}
