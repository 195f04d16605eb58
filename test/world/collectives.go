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

// barriers calls Barrier 205 times. For the first five calls it requires that no call returns before all ranks have
// called Barrier: each rank creates a file before the call, and finds the files of all ranks after the call.
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

// collectives calls barriers, and then each of the other collectives with every rank as the root, and with values of
// different lengths, some of them empty. It checks the results.
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

// heavy calls collectives with values of 1 MiB and checks the results.
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

// fails requires that err is a CollectiveError whose cause matches each of the regular expressions causes.
func (r *rank) fails(err error, causes ...string) {
	var failed *app.CollectiveError
	r.check(errors.As(err, &failed), "%v", err)
	for _, c := range causes {
		r.check(regexp.MustCompile(c).MatchString(failed.Err.Error()), "%v: does not match %s", err, c)
	}
}

// joinsNot lets the rank with the number arg end without Finalize. The remaining ranks call collectives, which must
// fail with an error that names that rank or a range of ranks that includes it. With cyclic placement the error may
// name one of the ranks that have ended and give the number of the rest.
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
		if m[3] != "" { // The ranks that have ended are not consecutive: "ranks N and M more ended".
			r.check(number(m[3]) < r.Size(), "%v", err)
			continue
		}
		r.check(first <= victim && victim <= last, "%v: want an error that names rank %d, which has ended", err, victim)
	}
	r.noError(r.Finalize(r.ctx)) // Finalize does not wait for a rank that has ended
}

// disagree makes one rank call Barrier while the remaining ranks call AllGather, and then Gather with another root than
// theirs. The calls must fail on all ranks, and the barrier after each failure must succeed. Calls with an invalid root
// or a wrong number of values must fail, too.
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

// large calls collectives with values that are too large. First rank 1 passes more than the 48 MiB that a rank may
// send. It must get ErrTooLong, and the next barrier must succeed on all ranks. Then the values of all ranks have 49
// MiB together, which is too much for the launch tree, and the collective must fail on all ranks.
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
