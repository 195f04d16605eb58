package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	app "ibrun"
	"ibrun/test/waitfor"
)

// endsEarly ends rank 3: by SIGKILL if how is "kill", by Finalize without an exit if how is "finalize", and by a return
// from main if how has another value. Before that, all ranks with an even number exchange messages with rank 3. Then
// all remaining ranks must get errors that name rank 3, and must still be able to exchange messages with each other.
func (r *rank) endsEarly(how string) {
	const victim = 3
	me, size := r.Rank(), r.Size()
	known := me%2 == 0
	if r.left = true; me == victim {
		for range (size + 1) / 2 {
			from, _, err := r.Recv(r.ctx)
			r.noError(err)
			r.noError(r.Send(r.ctx, from, []byte("good bye")))
		}
		r.noError(r.Flush(r.ctx))
		switch how {
		case "kill":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case "finalize":
			over, cancel := context.WithCancel(r.ctx)
			cancel()
			r.errorIs(r.Finalize(over), context.Canceled)
			waitfor.Require(r, "all remaining ranks get an error while this process lives", func() bool {
				told, _ := filepath.Glob("told.*")
				return len(told) == size-1
			})
		}
		return
	}
	if known {
		r.noError(r.Send(r.ctx, victim, []byte("hello")))
		m, err := r.RecvFrom(r.ctx, victim)
		r.noError(err)
		r.equal("good bye", string(m))
		_, err = r.RecvFrom(r.ctx, victim) // A rank that only receives must get an error, too.
		r.names(err, victim)
	}
	_, err := r.Get(r.ctx, victim, "never")
	r.names(err, victim)
	waitfor.Require(r, "Send or Flush to rank 3 fails", func() bool {
		if err = r.Send(r.ctx, victim, []byte("are you there?")); err == nil {
			err = r.Flush(r.ctx)
		}
		return err != nil
	})
	r.names(err, victim)
	r.noError(os.WriteFile(fmt.Sprint("told.", me), nil, 0o600))
	for to := range size {
		if to != victim {
			r.noError(r.Send(r.ctx, to, value(me, to, 1000)))
		}
	}
	for from := range size {
		if from != victim {
			got, err := r.RecvFrom(r.ctx, from)
			r.noError(err)
			r.same(value(from, me, 1000), got, "from %d", from)
		}
	}
	// Send to a rank of the same node must fail. Send to a rank of another node only buffers the message, and then
	// Finalize must report that the message is lost.
	if r.nodeOf(me) == r.nodeOf(victim) {
		r.names(r.Send(r.ctx, victim, nil), victim)
		r.noError(r.Finalize(r.ctx))
		return
	}
	r.noError(r.Send(r.ctx, victim, nil))
	r.names(r.Finalize(r.ctx), victim)
}

// abort calls Abort with the exit code code on one rank, while the remaining ranks wait in Recv or in Barrier. The text
// that it passes is longer than the 1,000 bytes that ibrun prints.
func (r *rank) abort(code string) {
	if r.Rank() == r.Size()/2 {
		r.Abort(number(code), "because"+strings.Repeat(" of that", 1<<10))
	}
	var err error
	if r.Rank()%2 == 0 {
		_, _, err = r.Recv(r.ctx)
	} else {
		err = r.Barrier(r.ctx)
	}
	r.Fatalf("the job was not aborted: %v", err)
}

// failures kills ranks 4, 2 and 3, one after the other. Recv must report the failures of ranks 4 and 2 once each. The
// failure of rank 3 is first returned by Failures, so Recv must not report it.
func (r *rank) failures(string) {
	me := r.Rank()
	r.equal(0, len(r.Failures()))
	r.noError(r.Barrier(r.ctx))
	// Every rank but rank 4 sends a message to every rank but rank 4.
	if me == 4 {
		die()
	}
	for i := range r.Size() {
		if to := (me + i) % r.Size(); to != 4 {
			r.noError(r.Send(r.ctx, to, []byte("all to all")))
		}
	}
	for messages, told := 0, 0; messages < r.Size()-1 || told < 1; {
		_, m, err := r.Recv(r.ctx)
		if err != nil { // The failure may be reported before, between or after the messages.
			r.names(err, 4)
			r.errorIs(err, app.ErrFailed)
			told++
			continue
		}
		r.equal("all to all", string(m))
		messages++
	}
	r.silence()
	r.fails(r.Barrier(r.ctx), "rank 4 ended|ranks .* ended") // Now all ranks know of the failure.

	if me == 2 {
		die()
	}
	r.awaitFailure(2)
	r.silence()
	r.equal([]int{4, 2}, r.Failures())
	r.fails(r.Barrier(r.ctx), "rank [24] ended|ranks .* ended")

	if me == 3 {
		die()
	}
	waitfor.Require(r, "rank 3 has failed, too", func() bool { return slices.Equal(r.Failures(), []int{4, 2, 3}) })
	r.silence()
}

// awaitFailure requires that the next Recv reports the failure of a rank that was killed.
func (r *rank) awaitFailure(victim int) {
	_, _, err := r.Recv(r.ctx)
	r.names(err, victim)
	r.errorIs(err, app.ErrFailed)
}

// silence requires that Recv returns neither a message nor a failure for 20 ms.
func (r *rank) silence() {
	short, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
	defer cancel()
	from, m, err := r.Recv(short)
	r.check(errors.Is(err, context.DeadlineExceeded), "%d: %q, %v", from, m, err)
}

// die kills this process by SIGKILL.
func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
