package main

import (
	"fmt"
	"os"
	"os/exec"

	app "ibrun"
)

// initTwice requires that a second call of Init returns ErrInitialized and no World. Collectives on the World of the
// first call must still work afterwards.
func (r *rank) initTwice(string) {
	second, err := app.Init(r.ctx)
	r.errorIs(err, app.ErrInitialized)
	r.check(second == nil, "a second world")
	r.noError(r.Barrier(r.ctx))
}

// again puts a key, sends messages and calls a collective. A script lets each rank run this scenario in several
// programs, one after the other, with a different value of the argument program. All data contain that value, so the
// checks fail if a rank gets data of an earlier program.
func (r *rank) again(program string) {
	mine := func(rank int) []byte { return fmt.Appendf(nil, "%s of %d", program, rank) }
	r.noError(r.Put(r.ctx, "key", mine(r.Rank())))
	for other := range r.Size() {
		got, err := r.Get(r.ctx, other, "key")
		r.noError(err)
		r.equal(string(mine(other)), string(got))
	}
	for other := range r.Size() {
		r.noError(r.Send(r.ctx, other, mine(r.Rank())))
		r.noError(r.Send(r.ctx, other, append(mine(r.Rank()), make([]byte, 40<<10)...))) // over a stream
	}
	for other := range r.Size() {
		for _, more := range []int{0, 40 << 10} {
			m, err := r.RecvFrom(r.ctx, other)
			r.noError(err)
			r.same(append(mine(other), make([]byte, more)...), m, "from %d", other)
		}
	}
	all, err := r.AllGather(r.ctx, mine(r.Rank()))
	r.noError(err)
	for other := range all {
		r.equal(string(mine(other)), string(all[other]))
	}
	r.noError(r.Barrier(r.ctx))
	if r.Rank() == 0 {
		fmt.Printf("%s: %d ranks\n", program, r.Size())
	}
}

// hold stays in the job until its standard input ends.
func (r *rank) hold(string) {
	fmt.Println("holds")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// child requires that a program that a rank starts inherits neither IBRUN_FD nor a socket.
func (r *rank) child(string) {
	r.noError(r.Send(r.ctx, (r.Rank()+1)%r.Size(), nil)) // opens the sockets that must not be inherited
	_, _, err := r.Recv(r.ctx)
	r.noError(err)
	out, err := exec.Command("sh", "-c",
		`echo "[$IBRUN_FD]"; for f in /proc/self/fd/*; do readlink $f; done | grep -c socket:; true`).CombinedOutput()
	r.noError(err)
	r.equal("[]\n0\n", string(out))
}

// entersNoBarrier lets all ranks but the one with the number arg wait in a barrier, which that rank never enters.
func (r *rank) entersNoBarrier(arg string) {
	victim := number(arg)
	fmt.Printf("rank %d is here\n", r.Rank())
	if r.Rank() == victim {
		<-r.ctx.Done()
	}
	r.noError(r.Barrier(r.ctx))
}
