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

// value returns n bytes for a message or a value of the key-value store. They depend on n and on the numbers from and
// to, which in most calls are the sender and the receiver. They consist of blocks of 1021 bytes that all differ, so
// that a comparison detects swapped or repeated blocks.
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

// same requires that got equals want. The message of a failure gives only their lengths, because they may be long.
func (r *rank) same(want, got []byte, format string, args ...any) {
	if !bytes.Equal(want, got) {
		r.Fatalf("%s: got %d bytes that differ from the %d bytes wanted", fmt.Sprintf(format, args...), len(got), len(want))
	}
}

// kvs calls Put, and calls Get for the values of all ranks. Some values are put only after Get was called. Put and Get
// must return an error for invalid keys, for values of more than 1 MiB, and for ranks that do not exist.
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

	// A Get that is called before the Put must wait for it, even if another Get of the same key times out meanwhile.
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
	_, err = r.Get(r.ctx, next, "k") // must succeed after all these errors
	r.noError(err)
}

// will lets the rank with the number arg put a value and end. On the remaining ranks, Get must still return that value.
// For a key that the rank has not put, Get must return ErrNotPut.
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

// names requires that err is a PeerError whose field and message give the number victim.
func (r *rank) names(err error, victim int) {
	var gone *app.PeerError
	r.check(errors.As(err, &gone), "%v", err)
	r.equal(victim, gone.Rank)
	r.contains(err, fmt.Sprintf("rank %d", victim))
}
