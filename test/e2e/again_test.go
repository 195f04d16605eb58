package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func init() {
	scenarios["again"] = (*rank).again
	scenarios["leave"] = func(r *rank, _ string) { r.left = true } // without Finalize
	scenarios["hold"] = (*rank).hold
}

// again uses all that ranks share, with values that another program of the same
// rank has other ones of.
func (r *rank) again(program string) {
	mine := func(rank int) []byte { return fmt.Appendf(nil, "%s of %d", program, rank) }
	require.NoError(r, r.Put(r.ctx, "key", mine(r.Rank())))
	for other := range r.Size() {
		got, err := r.Get(r.ctx, other, "key")
		require.NoError(r, err)
		require.Equal(r, string(mine(other)), string(got))
	}
	for other := range r.Size() {
		require.NoError(r, r.Send(r.ctx, other, mine(r.Rank())))
		require.NoError(r, r.Send(r.ctx, other, append(mine(r.Rank()), make([]byte, 40<<10)...))) // over a stream
	}
	for other := range r.Size() {
		for _, more := range []int{0, 40 << 10} {
			m, err := r.RecvFrom(r.ctx, other)
			require.NoError(r, err)
			r.same(append(mine(other), make([]byte, more)...), m, "from %d", other)
		}
	}
	all, err := r.AllGather(r.ctx, mine(r.Rank()))
	require.NoError(r, err)
	for other := range all {
		require.Equal(r, string(mine(other)), string(all[other]))
	}
	require.NoError(r, r.Barrier(r.ctx))
	if r.Rank() == 0 {
		fmt.Printf("%s: %d ranks\n", program, r.Size())
	}
}

// hold is part of the job until its input ends.
func (r *rank) hold(string) {
	fmt.Println("holds")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// scripted runs a script of programs of worker_test.go as each rank: $0 is the
// program.
func scripted(t *testing.T, s stage, script string, more ...string) outcome {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := command(t, append(append([]string{"--timeout", "60"}, more...), s.run("sh", "-c", script, self)...)...)
	c.Env = append(os.Environ(), swift)
	return finish(t, c)
}

// A rank that is a script can run programs one after the other, each of which
// joins the job: the later ones hear nothing of what the earlier ones said.
func TestProgramsInARow(t *testing.T) {
	for _, s := range stages(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			o := scripted(t, s,
				`"$0" :world again a && "$0" :world again b && sleep 0.$(($RANK % 3)) && "$0" :world again c`)
			require.Equal(t, 0, o.code, o.stderr)
			require.Empty(t, o.stderr)
			require.Regexp(t, `^a: (\d+) ranks\nb: \d+ ranks\nc: \d+ ranks\n$`, string(o.stdout))
		})
	}
}

// Who cannot take part any more is told so at once: a program after one that has
// left without Finalize, and one beside another.
func TestProgramsThatCannotJoin(t *testing.T) {
	one := stage{"one node", []string{"-n", "2"}}
	o := scripted(t, one, `"$0" :world leave; "$0" :world again b`)
	require.Equal(t, 1, o.code, o.stderr)
	require.Contains(t, o.stderr, "ibrun: an earlier program of this rank ended without Finalize")
	require.Less(t, o.took, 30*time.Second)

	o = scripted(t, one, `mkfifo in$RANK; "$0" :world hold <in$RANK >held$RANK & exec 4>in$RANK
until [ -s held$RANK ]; do :; done; "$0" :world again b 2>&1; exec 4>&-; wait; "$0" :world again c`, "--wdir", t.TempDir())
	require.Equal(t, 0, o.code, "%s%s", o.stderr, o.stdout)
	require.Equal(t, 2, strings.Count(string(o.stdout), "ibrun: another program of this rank has joined the job"), "%s",
		o.stdout)
	require.True(t, strings.HasSuffix(string(o.stdout), "c: 2 ranks\n"), "%s", o.stdout)
}
