package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	app "ibrun"
)

// init makes this test binary a rank if it is started as one: with :world and
// the name of a scenario. It must come before the flags of package testing.
func init() {
	if len(os.Args) < 3 || os.Args[1] != ":world" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience-5*time.Second)
	defer cancel()
	w, err := app.Init(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r := &rank{World: w, ctx: ctx}
	scenarios[os.Args[2]](r, append(os.Args[3:], "")[0])
	if !r.left {
		require.NoError(r, w.Finalize(ctx))
	}
	os.Exit(0)
}

// rank is one rank of a scenario; a requirement that does not hold ends it, and
// so the job.
type rank struct {
	*app.World
	ctx  context.Context
	left bool // the scenario has seen to the end itself
}

func (r *rank) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "rank %d of %d: %s\n", r.Rank(), r.Size(), fmt.Sprintf(format, args...))
}

func (r *rank) FailNow() { os.Exit(1) }

// scenarios are what a rank can be told to do, with one argument.
var scenarios = map[string]func(r *rank, arg string){
	"collectives": func(r *rank, _ string) { r.barriers(); r.collectives() },
	"heavy":       func(r *rank, _ string) { r.heavy() },
	"ended":       func(r *rank, victim string) { r.joinsNot(number(victim)) },
	"trouble":     func(r *rank, _ string) { r.disagree() },
	"large":       func(r *rank, _ string) { r.large() },
	"kvs":         func(r *rank, _ string) { r.kvs() },
	"will":        func(r *rank, victim string) { r.will(number(victim)) },
	"messages":    func(r *rank, _ string) { r.messages(); r.departure() },
	"gone":        (*rank).endsEarly,
	"failures":    func(r *rank, _ string) { r.failures() },
	"abort":       func(r *rank, code string) { r.abort(number(code)) },
	"ring":        func(r *rank, _ string) { r.ring() },
	"overview":    func(r *rank, victim string) { r.overview(number(victim)) },
	"child":       func(r *rank, _ string) { r.child() },
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

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
		require.Fail(r, fmt.Sprintf(format, args...), "%d bytes, not the %d that were expected", len(got), len(want))
	}
}

// barriers shows that nobody leaves one before all have come: who comes leaves
// a file behind, and who leaves looks for the files of all.
func (r *rank) barriers() {
	for round := range 5 {
		if r.Rank() == round*4%r.Size() {
			<-time.After(20 * time.Millisecond) // the others are there, and have to wait
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
func (r *rank) collectives() {
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
func (r *rank) heavy() {
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

var ranksOf = regexp.MustCompile(`ranks? (\d+)(?: to (\d+)| and (\d+) more)? ended`)

// joinsNot is a collective that one rank does not live to see. The others are
// told which, or, when its whole node went with it, of which ranks it was one.
func (r *rank) joinsNot(victim int) {
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
func (r *rank) disagree() {
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
func (r *rank) large() {
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

// kvs puts and gets.
func (r *rank) kvs() {
	me, size := r.Rank(), r.Size()
	require.NoError(r, r.Put(r.ctx, "k", value(me, 0, me*100)))
	require.NoError(r, r.Put(r.ctx, "empty", nil))
	require.NoError(r, r.Put(r.ctx, "k", value(me, 0, me*100)))
	require.ErrorIs(r, r.Put(r.ctx, "k", []byte("another")), app.ErrKeyExists)
	if me == size/2 {
		require.NoError(r, r.Put(r.ctx, strings.Repeat("l", 1024), value(me, 1, 1<<20)))
	}
	for i := range size {
		from := (me + i) % size
		got, err := r.Get(r.ctx, from, "k")
		require.NoError(r, err)
		r.same(value(from, 0, from*100), got, "Get from %d", from)
		got, err = r.Get(r.ctx, from, "empty")
		require.NoError(r, err)
		require.Empty(r, got)
	}
	got, err := r.Get(r.ctx, size/2, strings.Repeat("l", 1024))
	require.NoError(r, err)
	r.same(value(size/2, 1, 1<<20), got, "Get of a long value")

	// Who asks early waits; who gives up does not spoil it for those who do not.
	next := (me + 1) % size
	brief, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
	defer cancel()
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() {
			got, err := r.Get(r.ctx, next, "late")
			require.NoError(r, err)
			require.Equal(r, fmt.Sprint("late ", next), string(got))
		})
	}
	_, err = r.Get(brief, next, "late")
	require.ErrorIs(r, err, context.DeadlineExceeded)
	require.NoError(r, r.Barrier(r.ctx))
	require.NoError(r, r.Put(r.ctx, "late", []byte(fmt.Sprint("late ", me))))
	waiting.Wait()

	for _, from := range []int{-1, size, 1 << 20} {
		_, err := r.Get(r.ctx, from, "k")
		require.ErrorIs(r, err, app.ErrNoSuchRank)
	}
	for key, want := range map[string]error{
		"": app.ErrInvalidKey, "\x00k": app.ErrInvalidKey, strings.Repeat("l", 1025): app.ErrTooLong,
	} {
		require.ErrorIs(r, r.Put(r.ctx, key, nil), want)
		_, err := r.Get(r.ctx, next, key)
		require.ErrorIs(r, err, want)
	}
	require.ErrorIs(r, r.Put(r.ctx, "long", make([]byte, 1<<20+1)), app.ErrTooLong)
	_, err = r.Get(r.ctx, next, "k") // the agent still listens
	require.NoError(r, err)
}

// will is a value that is asked for after the end of the rank that put it.
func (r *rank) will(victim int) {
	if r.left = true; r.Rank() == victim {
		require.NoError(r, r.Put(r.ctx, "will", []byte("all to you")))
		return
	}
	_, err := r.Get(r.ctx, victim, "never")
	r.names(err, victim)
	require.ErrorIs(r, err, app.ErrNotPut)
	got, err := r.Get(r.ctx, victim, "will")
	require.NoError(r, err)
	require.Equal(r, "all to you", string(got))
	require.NoError(r, r.Finalize(r.ctx))
}

// names requires a PeerError about one rank.
func (r *rank) names(err error, victim int) {
	var gone *app.PeerError
	require.ErrorAs(r, err, &gone)
	require.Equal(r, victim, gone.Rank)
	require.ErrorContains(r, err, fmt.Sprintf("rank %d", victim))
}

// lengths of messages: those around the change to a stream are among them.
var lengths = []int{0, 1, 100, 1400, 16 << 10, 16<<10 + 1, 65_000, 100_000}

// messages sends all lengths between all pairs, and to itself.
func (r *rank) messages() {
	me, size := r.Rank(), r.Size()
	all := make([]int, size)
	for i := range all {
		all[i] = i
	}
	require.NoError(r, r.Warm(all...))
	for round := range 2 {
		var sending sync.WaitGroup
		sending.Go(func() {
			for _, n := range lengths {
				for i := range size {
					to := (me + i) % size
					m := value(me, to, n)
					if round == 0 {
						require.NoError(r, r.Send(r.ctx, to, m))
					} else {
						r.trySend(to, m)
					}
					clear(m) // it is the caller's again
				}
			}
		})
		if round == 0 {
			r.receiveAny()
		} else {
			for i := range size {
				from := (me + size - i) % size
				for _, n := range lengths {
					got, err := r.RecvFrom(r.ctx, from)
					require.NoError(r, err)
					r.same(value(from, me, n), got, "from %d", from)
				}
			}
		}
		sending.Wait()
		require.NoError(r, r.Flush(r.ctx))
		require.NoError(r, r.Barrier(r.ctx))
	}
	for _, to := range []int{-1, size} {
		require.ErrorIs(r, r.Send(r.ctx, to, nil), app.ErrNoSuchRank)
		require.ErrorIs(r, r.TrySend(to, nil), app.ErrNoSuchRank)
		require.ErrorIs(r, r.Warm(me, to), app.ErrNoSuchRank)
		_, err := r.RecvFrom(r.ctx, to)
		require.ErrorIs(r, err, app.ErrNoSuchRank)
	}
	brief, cancel := context.WithTimeout(r.ctx, time.Millisecond)
	defer cancel()
	_, _, err := r.Recv(brief)
	require.ErrorIs(r, err, context.DeadlineExceeded)
	require.NoError(r, r.Barrier(r.ctx)) // nothing came, since nobody has gone on
}

// receiveAny takes what all ranks send, in whichever order of the ranks.
func (r *rank) receiveAny() {
	seen := make([]int, r.Size())
	for range len(lengths) * r.Size() {
		from, got, err := r.Recv(r.ctx)
		require.NoError(r, err)
		require.Less(r, seen[from], len(lengths))
		r.same(value(from, r.Rank(), lengths[seen[from]]), got, "message %d from %d", seen[from], from)
		seen[from]++
	}
}

func (r *rank) trySend(to int, m []byte) {
	for {
		err := r.TrySend(to, m)
		if err == nil {
			return
		}
		require.ErrorIs(r, err, app.ErrWouldBlock)
		<-time.After(time.Millisecond) // nothing says when there is room again
		require.NoError(r, r.ctx.Err())
	}
}

// departure finalizes with messages on their way: who receives before its own
// Finalize gets them all.
func (r *rank) departure() {
	last, count := r.Size()-1, 30
	length := func(i int) int { return i * i * 13 % 3000 * (1 + i%7) }
	if r.Rank() != last {
		for i := range count {
			require.NoError(r, r.Send(r.ctx, last, value(r.Rank(), i, length(i))))
		}
	} else {
		<-time.After(50 * time.Millisecond) // the others are in Finalize
		for from := range last {
			for i := range count {
				got, err := r.RecvFrom(r.ctx, from)
				require.NoError(r, err)
				r.same(value(from, i, length(i)), got, "message %d from %d", i, from)
			}
		}
	}
	require.NoError(r, r.Finalize(r.ctx))
	r.left = true
	me := r.Rank()
	for name, call := range map[string]func() error{
		"Finalize":  func() error { return r.Finalize(r.ctx) },
		"Send":      func() error { return r.Send(r.ctx, 0, nil) },
		"Send self": func() error { return r.Send(r.ctx, me, nil) },
		"TrySend":   func() error { return r.TrySend(last, nil) },
		"Warm":      func() error { return r.Warm(0, me) },
		"Flush":     func() error { return r.Flush(r.ctx) },
		"Recv":      func() error { _, _, err := r.Recv(r.ctx); return err },
		"RecvFrom":  func() error { _, err := r.RecvFrom(r.ctx, 0); return err },
		"Put":       func() error { return r.Put(r.ctx, "k", nil) },
		"Get":       func() error { _, err := r.Get(r.ctx, 0, "k"); return err },
		"Barrier":   func() error { return r.Barrier(r.ctx) },
		"AllGather": func() error { _, err := r.AllGather(r.ctx, nil); return err },
	} {
		require.ErrorIs(r, call(), app.ErrFinalized, name)
	}
}
