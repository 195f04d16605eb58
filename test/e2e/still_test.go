package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// still is how long a rank or a node stands still: longer than datagrams are repeated to a peer
// that runs, and less than the minute after which an agent that does not answer is lost.
const still = 35 * time.Second

// A rank that is stopped, and a node that is frozen, while datagrams are under way to it, or so
// much by a stream that its kernel takes no more: the job goes on when it does.
func TestWorldStandsStill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ of, what string }{{"rank", "converse"}, {"node", "converse"}, {"rank", "flood"}} {
		t.Run(c.of+" "+c.what, func(t *testing.T) {
			of, what := c.of, c.what
			t.Parallel() // it waits
			self, err := os.Executable()
			require.NoError(t, err)
			c := command(t, append(local("--lazy", "flat", "a:1,b:1").args, self, ":world", what, "1")...)
			c.Env = append(os.Environ(), swift)
			ended := make(chan outcome, 1)
			go func() { ended <- finish(t, c) }()
			var pids []int
			require.Eventually(t, func() bool {
				said, err := os.ReadFile(filepath.Join(c.Dir, "pids"))
				if err != nil || !strings.HasSuffix(string(said), "\n") {
					return false
				}
				pids = nil
				for _, word := range strings.Fields(string(said)) {
					pid, err := strconv.Atoi(word)
					require.NoError(t, err)
					pids = append(pids, pid)
				}
				return true
			}, patience, 10*time.Millisecond)
			if of == "rank" {
				pids = pids[:1]
			}
			for _, pid := range pids {
				require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
			}
			select {
			case o := <-ended:
				require.Fail(t, "the job has ended", "%d: %s", o.code, o.stderr)
			case <-time.After(still):
			}
			for _, pid := range pids {
				require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
			}
			require.NoError(t, os.WriteFile(filepath.Join(c.Dir, "enough"), nil, 0o600))
			o := <-ended
			require.Equal(t, 0, o.code, o.stderr)
			require.Empty(t, o.stderr)
		})
	}
}

// converse lets rank 0 and another one talk until a file is there. The other leaves its number and
// that of its agent.
func (r *rank) converse(other int) {
	switch r.Rank() {
	case 0:
		for n := 0; ; n++ {
			_, err := os.Stat("enough")
			over := err == nil
			m := []byte{0}
			if over {
				m[0] = 1
			}
			require.NoError(r, r.Send(r.ctx, other, m))
			if over {
				return
			}
			_, err = r.RecvFrom(r.ctx, other)
			require.NoError(r, err)
		}
	case other:
		for n := 0; ; n++ {
			_, m, err := r.Recv(r.ctx)
			require.NoError(r, err)
			if m[0] == 1 {
				return
			}
			if n == 100 {
				r.leavePids()
			}
			require.NoError(r, r.Send(r.ctx, 0, m))
		}
	}
}

func (r *rank) leavePids() {
	require.NoError(r, os.WriteFile("pids", fmt.Appendln(nil, os.Getpid(), os.Getppid()), 0o600))
}

// flood lets rank 0 send as fast as it can until a file is there, and another one receive.
func (r *rank) flood(other int) {
	switch r.Rank() {
	case 0:
		for m := make([]byte, 1<<20); len(m) > 0; {
			if _, err := os.Stat("enough"); err == nil {
				m = nil
			}
			require.NoError(r, r.Send(r.ctx, other, m))
		}
	case other:
		for n := 0; ; n++ {
			_, m, err := r.Recv(r.ctx)
			require.NoError(r, err)
			if len(m) == 0 {
				return
			}
			if n == 100 {
				r.leavePids()
			}
			r.Free(m)
		}
	}
}
