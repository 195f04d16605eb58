// Restarter is a job whose ranks send to each other without pause, while rank 0 lets one after the
// other kill itself. Each message names the starts of its sender and of its receiver, as the sender
// knows it, so that one which comes from an old start, or is for one, is found.
//
//	ibrun --on-failure restart --max-restarts 1000 -n 8 -H a,b,c,d restarter -restarts 100
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"

	"ibrun"
)

// The kinds of messages.
const (
	traffic = iota
	die     // rank 0 to another
	born    // a start that is not the first, to rank 0
	over    // rank 0 to all
)

// head is kind, start of the sender, start of the receiver, and the number of the message between
// them.
const head = 3 + 8

// rank is one rank of the job.
type rank struct {
	w      *ibrun.World
	rng    *rand.Rand
	starts []int    // of the others, as far as this one knows
	sent   []uint64 // to each start that is known
	got    []uint64 // the number of the last message of each
	done   bool
	born   int // rank that has said so; -1: none

	messages, met, bytes uint64
}

func main() {
	restarts := flag.Int("restarts", 10, "how often a rank kills itself")
	seed := flag.Uint64("seed", 1, "of who kills itself, and of what is sent")
	back := flag.Int("rollbacks", 0, "how often all ranks start again; then nothing else is played")
	flag.Parse()
	play := func() error { return run(*restarts, *seed) }
	if *back > 0 {
		play = func() error { return rollbacks(*back) }
	}
	if err := play(); err != nil {
		fmt.Fprintf(os.Stderr, "restarter: %v\n", err)
		os.Exit(1)
	}
}

func run(restarts int, seed uint64) error {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		return err
	}
	r := &rank{
		w: w, rng: rand.New(rand.NewPCG(seed, uint64(w.Rank())<<8|uint64(w.Restarted()))), born: -1,
		starts: make([]int, w.Size()), sent: make([]uint64, w.Size()), got: make([]uint64, w.Size()),
	}
	for i := range r.starts {
		r.starts[i] = unknown
	}
	if err := r.play(restarts); err != nil {
		w.Abort(1, err.Error()) // to exit would be one more failure to restart from
	}
	return nil
}

func (r *rank) play(restarts int) error {
	if r.w.Rank() == 0 {
		return r.conduct(restarts)
	}
	if r.w.Restarted() > 0 {
		for err := error(ibrun.ErrWouldBlock); errors.Is(err, ibrun.ErrWouldBlock); {
			if err = r.try(0, born, head); err != nil && !errors.Is(err, ibrun.ErrWouldBlock) {
				return err
			}
			if err := r.round(); err != nil {
				return err
			}
		}
	}
	for !r.done {
		if err := r.round(); err != nil {
			return err
		}
	}
	return r.finish()
}

// unknown is the start of a rank of which nothing has been heard.
const unknown = -1

// patience is the time after which a rank gives up, so that a job that hangs ends.
const patience = time.Minute

// conduct is rank 0.
func (r *rank) conduct(restarts int) error {
	var took []time.Duration
	for i := range restarts {
		victim := 1 + r.rng.IntN(r.w.Size()-1)
		for range r.rng.IntN(50) {
			if err := r.round(); err != nil {
				return err
			}
		}
		for {
			err := r.try(victim, die, head)
			if err == nil {
				break
			}
			if !errors.Is(err, ibrun.ErrWouldBlock) {
				return fmt.Errorf("restart %d: rank %d: %w", i, victim, err)
			}
			if err := r.round(); err != nil {
				return err
			}
		}
		began := time.Now()
		for r.born = -1; r.born != victim; {
			if err := r.round(); err != nil {
				return err
			}
			if time.Since(began) > patience {
				return fmt.Errorf("restart %d: rank %d is not there after %v", i, victim, patience)
			}
		}
		took = append(took, time.Since(began))
	}
	for to := 1; to < r.w.Size(); {
		switch err := r.try(to, over, head); {
		case err == nil:
			to++
		case !errors.Is(err, ibrun.ErrWouldBlock):
			return err
		}
		if err := r.round(); err != nil {
			return err
		}
	}
	if len(took) > 0 {
		slices.Sort(took)
		fmt.Printf("%d restarts under traffic: median %v, longest %v\n", len(took),
			took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	}
	return r.finish()
}

func (r *rank) finish() error {
	fmt.Printf("rank %d: %d messages, %d bytes, none stale; %d sends met a restart\n", r.w.Rank(), r.messages, r.bytes,
		r.met)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return r.w.Finalize(ctx)
}

// round sends a few messages and receives what is there.
func (r *rank) round() error {
	for range r.rng.IntN(6) {
		to := r.rng.IntN(r.w.Size())
		size := head + r.rng.IntN(200)
		if r.rng.IntN(8) == 0 {
			size = head + r.rng.IntN(60_000)
		}
		if err := r.try(to, traffic, size); err != nil && !errors.Is(err, ibrun.ErrWouldBlock) {
			return err
		}
	}
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Microsecond)
		from, m, err := r.w.Recv(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		if err := r.noted(err); err != nil {
			return err
		}
		if err == nil {
			if err := r.take(from, m); err != nil {
				return err
			}
			r.w.Free(m)
		}
	}
}

// noted takes in what an error says of restarts, and returns another one.
func (r *rank) noted(err error) error {
	var restarted *ibrun.RestartError
	if !errors.As(err, &restarted) {
		return err
	}
	if restarted.Restarts <= r.starts[restarted.Rank] {
		return fmt.Errorf("restart %d of rank %d after %d", restarted.Restarts, restarted.Rank,
			r.starts[restarted.Rank])
	}
	r.starts[restarted.Rank] = restarted.Restarts
	r.sent[restarted.Rank], r.got[restarted.Rank] = 0, 0
	return nil
}

// try sends a message if that is possible at once.
func (r *rank) try(to int, kind byte, size int) error {
	m := make([]byte, size)
	m[0], m[1], m[2] = kind, byte(r.w.Restarted()), byte(r.starts[to])
	binary.BigEndian.PutUint64(m[3:], r.sent[to]+1)
	err := r.w.TrySend(to, m)
	if err == nil {
		r.sent[to]++
		return nil
	}
	if r.noted(err) == nil {
		r.met++
		return ibrun.ErrWouldBlock
	}
	return err
}

// take holds a message against what may come.
func (r *rank) take(from int, m []byte) error {
	if len(m) < head {
		return fmt.Errorf("a message of %d bytes", len(m))
	}
	start, to, number := int(m[1]), int(int8(m[2])), binary.BigEndian.Uint64(m[3:])
	known := r.starts[from]
	if known == unknown {
		known = start
		r.starts[from] = start
	}
	switch {
	case start != known:
		return fmt.Errorf("a message of start %d of rank %d, whose start %d is known", start, from, known)
	case to != unknown && to != r.w.Restarted():
		return fmt.Errorf("a message of rank %d to start %d came to start %d", from, to, r.w.Restarted())
	case number <= r.got[from]:
		return fmt.Errorf("message %d of rank %d after %d", number, from, r.got[from])
	}
	r.got[from] = number
	r.messages++
	r.bytes += uint64(len(m))
	switch m[0] {
	case die:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case born:
		r.born = from
	case over:
		r.done = true
	}
	return nil
}
