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

	"ibrun/internal/skip"
	"ibrun/test/vcluster/cluster"
)

var (
	spared      = flag.Duration("spared", 24*time.Second, "of each job of TestSpared, in which nothing may be lost")
	sparedEvery = flag.Duration("spared-every", 12*time.Second, "between two faults of it")
)

// A pause that everybody survives is under five seconds.
const (
	shortest = 500 * time.Millisecond
	longest  = 4900 * time.Millisecond
)

// TestSpared: cuts and pauses of less than five seconds cost a job nothing: no agent, no rank, no
// line of an error. The second job restarts ranks and repairs its tree, and so gives a host up
// after six seconds of silence.
func TestSpared(t *testing.T) {
	if os.Geteuid() != 0 {
		skip.Because(t, cluster.ErrNotRoot.Error())
	}
	t.Parallel()
	for i, options := range []string{"", "--on-failure restart"} {
		t.Run(fmt.Sprintf("job%d", i), func(t *testing.T) {
			t.Parallel()
			s, err := newSite(t)
			require.NoError(t, err)
			defer s.close()
			s.spare(t, strings.Fields(options), rand.New(rand.NewPCG(*seed, uint64(i))))
		})
	}
}

// spare lets a job of eight nodes, in a tree of depth three, survive.
func (s *site) spare(t *testing.T, options []string, rng *rand.Rand) {
	const ranks = 8
	words := append([]string{program, "--tree", "kary:2", "--hosts", "node[0001-0008]", "-n", "8"}, options...)
	j, err := s.start(append(words, "sh", "-c", "echo up; while sleep 0.2; do echo $RANK; done"))
	require.NoError(t, err)
	s.job = j
	require.True(t, s.until(longestLaunch, func() bool { return j.up() == ranks }), s.output(j))
	count, what := map[string]int{}, "nothing"
	for end := time.Now().Add(*spared); time.Now().Before(end); {
		host := fmt.Sprintf("node%04d", 1+rng.IntN(ranks))
		pause := shortest + time.Duration(rng.Int64N(int64(longest-shortest)))
		kind := pick(rng, "cut", "cut", "freeze", "stop an agent", "stop the root")
		what = fmt.Sprintf("%s of %s for %v", kind, host, pause.Round(time.Millisecond))
		count[kind]++
		next, began := time.After(*sparedEvery), time.Now()
		require.NoError(t, s.pause(kind, host, pause), what)
		what += fmt.Sprintf(", which took %v", time.Since(began).Round(time.Millisecond))
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
	require.True(t, s.until(cutEndedWithin+slack, j.over), s.output(j))
	require.Equal(t, 130, j.code(), s.output(j))
	t.Logf("%v: %v", *spared, count)
}

// pause does something to a host that it takes back after a time.
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
