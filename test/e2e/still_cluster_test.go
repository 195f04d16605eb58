//go:build cluster

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

	"ibrun/internal/waitfor"
)

// stopped is how long a rank or a node is stopped: longer than datagrams are repeated to a peer that
// runs, and less than the minute after which an agent that does not answer is lost.
const stopped = 35 * time.Second

func init() {
	scenarios["converse"] = func(r *rank, other string) { r.converse(number(other)) }
	scenarios["flood"] = func(r *rank, other string) { r.flood(number(other)) }
}

// A rank is stopped, or a node is frozen, while datagrams are under way to it, or so much by a stream
// that its kernel takes no more. When it goes on, the job does.
func TestWorldStandsStill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ of, what string }{{"rank", "converse"}, {"node", "converse"}, {"rank", "flood"}} {
		t.Run(c.of+" "+c.what, func(t *testing.T) {
			t.Parallel() // it waits
			self, err := os.Executable()
			require.NoError(t, err)
			cmd := command(t, append(local("--lazy", "flat", "a:1,b:1").args, self, ":world", c.what, "1")...)
			cmd.Env = append(os.Environ(), swift)
			ended := make(chan outcome, 1)
			go func() { ended <- finish(t, cmd) }()
			var text []byte
			waitfor.Require(t, "the rank and its agent are named", func() bool {
				text, _ = os.ReadFile(filepath.Join(cmd.Dir, "pids"))
				return strings.HasSuffix(string(text), "\n")
			})
			pids := strings.Fields(string(text))
			if c.of == "rank" {
				pids = pids[:1]
			}
			signal := func(s syscall.Signal) {
				for _, pid := range pids {
					number, err := strconv.Atoi(pid)
					require.NoError(t, err)
					require.NoError(t, syscall.Kill(number, s))
				}
			}
			signal(syscall.SIGSTOP)
			select {
			case o := <-ended:
				require.Fail(t, "the job has ended", "%d: %s", o.code, o.stderr)
			case <-time.After(stopped):
			}
			signal(syscall.SIGCONT)
			require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "enough"), nil, 0o600))
			o := <-ended
			require.Equal(t, 0, o.code, o.stderr)
			require.Empty(t, o.stderr)
		})
	}
}

// converse lets rank 0 and another one exchange messages until a file exists. The other one writes its
// process and its agent's to a file.
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

// flood lets rank 0 send as fast as it can until a file exists, and another one receive.
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
