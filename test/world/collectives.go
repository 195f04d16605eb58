package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	app "ibrun"
	"ibrun/test/waitfor"
)

var ranksOf = regexp.MustCompile(`ranks? (\d+)(?: to (\d+)| and (\d+) more)? ended`)

// barriers requires that no rank leaves a barrier before all ranks have entered it. Each rank creates a file before it
// enters, and looks for the files of all ranks when it leaves.
func (r *rank) barriers() {
	for round := range 5 {
		if r.Rank() == round*4%r.Size() {
			waitfor.Require(r, "all other ranks have entered the barrier", func() bool {
				came, _ := filepath.Glob(fmt.Sprintf("came.%d.*", round))
				return len(came) == r.Size()-1
			})
		}
		r.noError(os.WriteFile(fmt.Sprintf("came.%d.%d", round, r.Rank()), nil, 0o600))
		r.noError(r.Barrier(r.ctx))
		came, err := filepath.Glob(fmt.Sprintf("came.%d.*", round))
		r.noError(err)
		r.equal(r.Size(), len(came))
	}
	for range 200 {
		r.noError(r.Barrier(r.ctx))
	}
}

// collectives calls each collective with every root, and with values of different sizes, some of them empty.
func (r *rank) collectives(string) {
	r.barriers()
	me, size := r.Rank(), r.Size()
	length := func(from, to int) int { return (from*5 + to*3) % 4 * 700 }
	for root := range size {
		got, err := r.Broadcast(r.ctx, root, value(me, root, length(me, root)))
		r.noError(err)
		r.same(value(root, root, length(root, root)), got, "Broadcast of root %d", root)

		all, err := r.Gather(r.ctx, root, value(me, root, length(me, root)))
		r.noError(err)
		if me != root {
			r.check(all == nil, "%d values", len(all))
		} else {
			r.equal(size, len(all))
			for from := range all {
				r.same(value(from, root, length(from, root)), all[from], "Gather of root %d from %d", root, from)
			}
		}

		parts := make([][]byte, size)
		for to := range parts {
			parts[to] = value(me, to, length(me, to))
		}
		got, err = r.Scatter(r.ctx, root, parts)
		r.noError(err)
		r.same(value(root, me, length(root, me)), got, "Scatter of root %d", root)
	}
	for shift := range 4 {
		all, err := r.AllGather(r.ctx, value(me, 0, length(me, shift)))
		r.noError(err)
		r.equal(size, len(all))
		parts := make([][]byte, size)
		for i := range size {
			r.same(value(i, 0, length(i, shift)), all[i], "AllGather from %d", i)
			parts[i] = value(me, i, length(me, i+shift))
		}
		all, err = r.AllToAll(r.ctx, parts)
		r.noError(err)
		r.equal(size, len(all))
		for from := range all {
			r.same(value(from, me, length(from, me+shift)), all[from], "AllToAll from %d", from)
		}
	}
	// An empty value is valid, too.
	all, err := r.AllGather(r.ctx, nil)
	r.noError(err)
	r.equal(size, len(all))
	r.equal(0, len(bytes.Join(all, nil)))
	got, err := r.Broadcast(r.ctx, size-1, nil)
	r.noError(err)
	r.equal(0, len(got))
}

// heavy passes values of 1 MiB through the collectives.
func (r *rank) heavy(string) {
	me, root := r.Rank(), r.Size()/2
	got, err := r.Broadcast(r.ctx, root, value(me, 0, 1<<20))
	r.noError(err)
	r.same(value(root, 0, 1<<20), got, "Broadcast")
	all, err := r.Gather(r.ctx, root, value(me, 0, 1<<20))
	r.noError(err)
	for from := range all {
		r.same(value(from, 0, 1<<20), all[from], "Gather from %d", from)
	}
	var parts [][]byte
	for to := range r.Size() {
		parts = append(parts, value(me, to, 1<<20))
	}
	got, err = r.Scatter(r.ctx, root, parts)
	r.noError(err)
	r.same(value(root, me, 1<<20), got, "Scatter")
	all, err = r.AllGather(r.ctx, value(me, 0, 1<<20))
	r.noError(err)
	r.equal(r.Size(), len(all))
	for from := range all {
		r.same(value(from, 0, 1<<20), all[from], "AllGather from %d", from)
	}
}

// fails requires that err is a CollectiveError whose cause matches all of the patterns.
func (r *rank) fails(err error, causes ...string) {
	var failed *app.CollectiveError
	r.check(errors.As(err, &failed), "%v", err)
	for _, c := range causes {
		r.check(regexp.MustCompile(c).MatchString(failed.Err.Error()), "%v: does not match %s", err, c)
	}
}

// joinsNot calls collectives after one rank has ended. The errors of the other ranks must name it, or, if its whole
// node was lost with it, a range of ranks that includes it.
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
		r.check(m != nil, "%v", err)
		first, last := number(m[1]), number(m[1])
		if m[2] != "" {
			last = number(m[2])
		}
		if m[3] != "" { // with cyclic placement the ranks of a subtree are no range
			r.check(number(m[3]) < r.Size(), "%v", err)
			continue
		}
		r.check(first <= victim && victim <= last, "%v: does not name rank %d, which ended", err, victim)
	}
	r.noError(r.Finalize(r.ctx)) // Finalize does not wait for a rank that has ended
}

// disagree calls different collectives, and then the same one with different roots. After each failure the next
// collective must succeed.
func (r *rank) disagree(string) {
	odd := r.Size() - 2
	if r.Rank() == odd {
		r.fails(r.Barrier(r.ctx), "rank [0-9]+ .*called", "Barrier", "AllGather")
	} else {
		_, err := r.AllGather(r.ctx, []byte("x"))
		r.fails(err, "rank [0-9]+ .*called", "Barrier", "AllGather")
	}
	r.noError(r.Barrier(r.ctx))
	root := 1
	if r.Rank() == odd {
		root = 2
	}
	_, err := r.Gather(r.ctx, root, []byte("x"))
	r.fails(err, "rank [0-9]+ .*called", "Gather of root 1", "Gather of root 2")
	r.noError(r.Barrier(r.ctx))
	for _, root := range []int{-1, r.Size()} {
		_, err = r.Broadcast(r.ctx, root, nil)
		r.errorIs(err, app.ErrNoSuchRank)
		_, err = r.Gather(r.ctx, root, nil)
		r.errorIs(err, app.ErrNoSuchRank)
	}
	_, err = r.AllToAll(r.ctx, make([][]byte, r.Size()+1))
	r.errorIs(err, app.ErrValueCount)
	r.noError(r.Barrier(r.ctx))
}

// large passes values that are too large: first one that is too large for a rank, which gets the error before anything
// is sent, then values whose sum is too large for the launch tree.
func (r *rank) large(string) {
	var failed *app.CollectiveError
	if r.Rank() == 1 {
		_, err := r.Gather(r.ctx, 0, make([]byte, 48<<20+1))
		r.errorIs(err, app.ErrTooLong)
		r.check(!errors.As(err, &failed), "%v", err)
	}
	r.noError(r.Barrier(r.ctx))
	_, err := r.AllGather(r.ctx, make([]byte, 49<<20/r.Size()))
	r.fails(err, "too much for the launch tree")
	r.noError(r.Barrier(r.ctx))
}
