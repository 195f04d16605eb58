package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	app "ibrun"
)

// value is what a rank has for another: n bytes that belong to the two and to
// the size, and of which no two blocks are the same.
func value(from, to, n int) []byte {
	block := make([]byte, 1021)
	_, _ = rand.NewChaCha8([32]byte{byte(from), byte(to), byte(n), byte(n >> 8), byte(n >> 16)}).Read(block[:min(n,
		len(block))])
	v := make([]byte, 0, n+len(block))
	for len(v) < n {
		binary.LittleEndian.PutUint16(block, binary.LittleEndian.Uint16(block)+1)
		v = append(v, block...)
	}
	return v[:n]
}

// same is a short complaint about long values.
func (r *rank) same(want, got []byte, format string, args ...any) {
	if !bytes.Equal(want, got) {
		r.Fatalf("%s: %d bytes, not the %d that were expected", fmt.Sprintf(format, args...), len(got), len(want))
	}
}

// kvs puts and gets.
func (r *rank) kvs(string) {
	me, size := r.Rank(), r.Size()
	r.noError(r.Put(r.ctx, "k", value(me, 0, me*100)))
	r.noError(r.Put(r.ctx, "empty", nil))
	r.noError(r.Put(r.ctx, "k", value(me, 0, me*100)))
	r.errorIs(r.Put(r.ctx, "k", []byte("another")), app.ErrKeyExists)
	if me == size/2 {
		r.noError(r.Put(r.ctx, strings.Repeat("l", 1024), value(me, 1, 1<<20)))
	}
	for i := range size {
		from := (me + i) % size
		got, err := r.Get(r.ctx, from, "k")
		r.noError(err)
		r.same(value(from, 0, from*100), got, "Get from %d", from)
		got, err = r.Get(r.ctx, from, "empty")
		r.noError(err)
		r.equal(0, len(got))
	}
	got, err := r.Get(r.ctx, size/2, strings.Repeat("l", 1024))
	r.noError(err)
	r.same(value(size/2, 1, 1<<20), got, "Get of a long value")

	// Who asks early waits; who gives up does not spoil it for those who do not.
	next := (me + 1) % size
	brief, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
	defer cancel()
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() {
			got, err := r.Get(r.ctx, next, "late")
			r.noError(err)
			r.equal(fmt.Sprint("late ", next), string(got))
		})
	}
	_, err = r.Get(brief, next, "late")
	r.errorIs(err, context.DeadlineExceeded)
	r.noError(r.Barrier(r.ctx))
	r.noError(r.Put(r.ctx, "late", []byte(fmt.Sprint("late ", me))))
	waiting.Wait()

	for _, from := range []int{-1, size, 1 << 20} {
		_, err := r.Get(r.ctx, from, "k")
		r.errorIs(err, app.ErrNoSuchRank)
	}
	for key, want := range map[string]error{
		"": app.ErrInvalidKey, "\x00k": app.ErrInvalidKey, strings.Repeat("l", 1025): app.ErrTooLong,
	} {
		r.errorIs(r.Put(r.ctx, key, nil), want)
		_, err := r.Get(r.ctx, next, key)
		r.errorIs(err, want)
	}
	r.errorIs(r.Put(r.ctx, "long", make([]byte, 1<<20+1)), app.ErrTooLong)
	_, err = r.Get(r.ctx, next, "k") // the agent still listens
	r.noError(err)
}

// will is a value that is asked for after the end of the rank that put it.
func (r *rank) will(arg string) {
	victim := number(arg)
	if r.left = true; r.Rank() == victim {
		r.noError(r.Put(r.ctx, "will", []byte("all to you")))
		return
	}
	_, err := r.Get(r.ctx, victim, "never")
	r.names(err, victim)
	r.errorIs(err, app.ErrNotPut)
	got, err := r.Get(r.ctx, victim, "will")
	r.noError(err)
	r.equal("all to you", string(got))
	r.noError(r.Finalize(r.ctx))
}

// names requires a PeerError about one rank.
func (r *rank) names(err error, victim int) {
	var gone *app.PeerError
	r.check(errors.As(err, &gone), "%v", err)
	r.equal(victim, gone.Rank)
	r.contains(err, fmt.Sprintf("rank %d", victim))
}
