package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	app "ibrun"
)

// A job that goes on when ranks fail: those that wait for any rank are told of each failure once,
// by name, unless they have acknowledged it; collectives fail by name; Finalize does not wait.
func TestWorldFailures(t *testing.T) {
	for _, s := range append(stages(t), local("--lazy", "kary:2", "n[1-4]", "-ppn", "4")) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.args = append([]string{"--keep-going"}, s.args...)
			o := worlds(t, s, "failures")
			require.Equal(t, 137, o.code, "%s", o.stderr)
			require.Regexp(t, `^ibrun: rank 4 on \S+ was killed by signal 9[^\n]*\n$`, o.stderr,
				"the others have nothing to complain about")
		})
	}
}

// The example that hands the work of a failed rank to others does all of it.
func TestFarm(t *testing.T) {
	t.Parallel()
	farm := withoutC(t, "examples/farm")
	job := local("--lazy", "flat", "a[1-4]:2").args
	o := finish(t, command(t, append(append([]string{"--keep-going"}, job...), farm, "-items", "5000", "-fail",
		"3")...))
	require.Equal(t, 137, o.code, o.stderr)
	require.Equal(t, "5000 items, sum of squares 41654167500, 1 of 7 workers failed\n", string(o.stdout))
	require.Regexp(t, `^ibrun: rank 3 on a2 was killed by signal 9[^\n]*\n$`, o.stderr)
}

// die ends this rank without a word.
func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// failures is ranks 4 and 2 that die one after the other, and rank 3, whose failure is acknowledged
// before a Recv.
func (r *rank) failures() {
	me := r.Rank()
	require.Empty(r, r.Failures())
	require.NoError(r, r.Barrier(r.ctx))
	// All to all, but one says nothing.
	if me == 4 {
		die()
	}
	for i := range r.Size() {
		if to := (me + i) % r.Size(); to != 4 {
			require.NoError(r, r.Send(r.ctx, to, []byte("all to all")))
		}
	}
	for messages, told := 0, 0; messages < r.Size()-1 || told < 1; {
		_, m, err := r.Recv(r.ctx)
		if err != nil { // before, between or after them
			r.names(err, 4)
			require.ErrorIs(r, err, app.ErrFailed)
			told++
			continue
		}
		require.Equal(r, "all to all", string(m))
		messages++
	}
	r.silence()
	r.fails(r.Barrier(r.ctx), "rank 4 ended|ranks .* ended") // and all have heard of it

	if me == 2 {
		die()
	}
	r.awaitFailure(2)
	r.silence()
	require.Equal(r, []int{4, 2}, r.Failures())
	r.fails(r.Barrier(r.ctx), "rank [24] ended|ranks .* ended")

	if me == 3 {
		die()
	}
	require.Eventually(r, func() bool { return slices.Equal(r.Failures(), []int{4, 2, 3}) }, patience/2,
		time.Millisecond)
	r.silence()
}

// awaitFailure requires that the next Recv is told of a rank that was killed.
func (r *rank) awaitFailure(victim int) {
	_, _, err := r.Recv(r.ctx)
	r.names(err, victim)
	require.ErrorIs(r, err, app.ErrFailed)
}

// silence requires that there is nothing to receive, and nothing to hear of.
func (r *rank) silence() {
	short, cancel := context.WithTimeout(r.ctx, 100*time.Millisecond)
	defer cancel()
	from, m, err := r.Recv(short)
	require.ErrorIs(r, err, context.DeadlineExceeded, fmt.Sprintf("%d: %q", from, m))
}
