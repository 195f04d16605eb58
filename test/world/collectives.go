package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/stretchr/testify/require"

	app "ibrun"
	"ibrun/internal/waitfor"
)

var ranksOf = regexp.MustCompile(`ranks? (\d+)(?: to (\d+)| and (\d+) more)? ended`)

// barriers shows that nobody leaves one before all have come: who comes leaves
// a file behind, and who leaves looks for the files of all.
func (r *rank) barriers() {
	for round := range 5 {
		if r.Rank() == round*4%r.Size() {
			waitfor.Require(r, "the others are there, and have to wait", func() bool {
				came, _ := filepath.Glob(fmt.Sprintf("came.%d.*", round))
				return len(came) == r.Size()-1
			})
		}
		require.NoError(r, os.WriteFile(fmt.Sprintf("came.%d.%d", round, r.Rank()), nil, 0o600))
		require.NoError(r, r.Barrier(r.ctx))
		came, err := filepath.Glob(fmt.Sprintf("came.%d.*", round))
		require.NoError(r, err)
		require.Len(r, came, r.Size())
	}
	for range 200 {
		require.NoError(r, r.Barrier(r.ctx))
	}
}

// collectives calls each with every root, with values of different sizes of
// which some are empty.
func (r *rank) collectives(string) {
	r.barriers()
	me, size := r.Rank(), r.Size()
	length := func(from, to int) int { return (from*5 + to*3) % 4 * 700 }
	for root := range size {
		got, err := r.Broadcast(r.ctx, root, value(me, root, length(me, root)))
		require.NoError(r, err)
		r.same(value(root, root, length(root, root)), got, "Broadcast of root %d", root)

		all, err := r.Gather(r.ctx, root, value(me, root, length(me, root)))
		require.NoError(r, err)
		if me != root {
			require.Nil(r, all)
		} else {
			require.Len(r, all, size)
			for from := range all {
				r.same(value(from, root, length(from, root)), all[from], "Gather of root %d from %d", root, from)
			}
		}

		parts := make([][]byte, size)
		for to := range parts {
			parts[to] = value(me, to, length(me, to))
		}
		got, err = r.Scatter(r.ctx, root, parts)
		require.NoError(r, err)
		r.same(value(root, me, length(root, me)), got, "Scatter of root %d", root)
	}
	for shift := range 4 {
		all, err := r.AllGather(r.ctx, value(me, 0, length(me, shift)))
		require.NoError(r, err)
		require.Len(r, all, size)
		parts := make([][]byte, size)
		for i := range size {
			r.same(value(i, 0, length(i, shift)), all[i], "AllGather from %d", i)
			parts[i] = value(me, i, length(me, i+shift))
		}
		all, err = r.AllToAll(r.ctx, parts)
		require.NoError(r, err)
		require.Len(r, all, size)
		for from := range all {
			r.same(value(from, me, length(from, me+shift)), all[from], "AllToAll from %d", from)
		}
	}
	// Nothing at all is a value too.
	all, err := r.AllGather(r.ctx, nil)
	require.NoError(r, err)
	require.Len(r, all, size)
	require.Empty(r, bytes.Join(all, nil))
	got, err := r.Broadcast(r.ctx, size-1, nil)
	require.NoError(r, err)
	require.Empty(r, got)
}

// heavy carries values of 1 MiB.
func (r *rank) heavy(string) {
	me, root := r.Rank(), r.Size()/2
	got, err := r.Broadcast(r.ctx, root, value(me, 0, 1<<20))
	require.NoError(r, err)
	r.same(value(root, 0, 1<<20), got, "Broadcast")
	all, err := r.Gather(r.ctx, root, value(me, 0, 1<<20))
	require.NoError(r, err)
	for from := range all {
		r.same(value(from, 0, 1<<20), all[from], "Gather from %d", from)
	}
	var parts [][]byte
	for to := range r.Size() {
		parts = append(parts, value(me, to, 1<<20))
	}
	got, err = r.Scatter(r.ctx, root, parts)
	require.NoError(r, err)
	r.same(value(root, me, 1<<20), got, "Scatter")
	all, err = r.AllGather(r.ctx, value(me, 0, 1<<20))
	require.NoError(r, err)
	require.Len(r, all, r.Size())
	for from := range all {
		r.same(value(from, 0, 1<<20), all[from], "AllGather from %d", from)
	}
}

// fails requires that a collective failed, for one of these reasons.
func (r *rank) fails(err error, causes ...string) {
	var failed *app.CollectiveError
	require.ErrorAs(r, err, &failed)
	for _, c := range causes {
		require.Regexp(r, c, failed.Err.Error())
	}
}

// joinsNot is a collective that one rank does not live to see. The others are
// told which, or, when its whole node went with it, of which ranks it was one.
func (r *rank) joinsNot(arg string) {
	victim := number(arg)
	if r.left = true; r.Rank() == victim {
		return
	}
	for _, call := range []func() error{
		func() error { return r.Barrier(r.ctx) },
		func() error { _, err := r.AllGather(r.ctx, []byte("x")); return err },
		func() error { _, err := r.Broadcast(r.ctx, victim, nil); return err },
	} {
		err := call()
		r.fails(err)
		m := ranksOf.FindStringSubmatch(err.Error())
		require.NotNil(r, m, "%v", err)
		first, last := number(m[1]), number(m[1])
		if m[2] != "" {
			last = number(m[2])
		}
		if m[3] != "" { // ranks were dealt: a subtree's are no range
			require.Less(r, number(m[3]), r.Size())
			continue
		}
		require.True(r, first <= victim && victim <= last, "%v: it is rank %d that ended", err, victim)
	}
	require.NoError(r, r.Finalize(r.ctx)) // a rank that has ended is not waited for
}

// disagree calls different collectives and the same of different roots. What
// fails does not spoil the next.
func (r *rank) disagree(string) {
	odd := r.Size() - 2
	if r.Rank() == odd {
		r.fails(r.Barrier(r.ctx), "rank [0-9]+ .*called", "Barrier", "AllGather")
	} else {
		_, err := r.AllGather(r.ctx, []byte("x"))
		r.fails(err, "rank [0-9]+ .*called", "Barrier", "AllGather")
	}
	require.NoError(r, r.Barrier(r.ctx))
	root := 1
	if r.Rank() == odd {
		root = 2
	}
	_, err := r.Gather(r.ctx, root, []byte("x"))
	r.fails(err, "rank [0-9]+ .*called", "Gather of root 1", "Gather of root 2")
	require.NoError(r, r.Barrier(r.ctx))
	for _, root := range []int{-1, r.Size()} {
		_, err = r.Broadcast(r.ctx, root, nil)
		require.ErrorIs(r, err, app.ErrNoSuchRank)
		_, err = r.Gather(r.ctx, root, nil)
		require.ErrorIs(r, err, app.ErrNoSuchRank)
	}
	_, err = r.AllToAll(r.ctx, make([][]byte, r.Size()+1))
	require.ErrorIs(r, err, app.ErrValueCount)
	require.NoError(r, r.Barrier(r.ctx))
}

// large is too much: for one rank, which is told before anything is sent, and
// for all together.
func (r *rank) large(string) {
	var failed *app.CollectiveError
	if r.Rank() == 1 {
		_, err := r.Gather(r.ctx, 0, make([]byte, 48<<20+1))
		require.ErrorIs(r, err, app.ErrTooLong)
		require.False(r, errors.As(err, &failed))
	}
	require.NoError(r, r.Barrier(r.ctx))
	_, err := r.AllGather(r.ctx, make([]byte, 49<<20/r.Size()))
	r.fails(err, "too much for the launch tree")
	require.NoError(r, r.Barrier(r.ctx))
}
