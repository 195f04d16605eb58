// Command survivor computes a stencil over a ring of ranks. It continues after the loss of ranks, nodes and ports, and
// prints the same result as without losses. Each rank writes checkpoints to a folder. When a rank has been restarted,
// all ranks continue from the latest checkpoint that every rank has.
//
//	ibrun --on-failure restart --spares 1 -n 8 -H a:2,b:2,c:2,d:2,e:2 survivor -dir DIR -steps 1000
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"ibrun"
)

// every is the number of steps between two checkpoints. A rank is at most one step ahead of its neighbours. So in a
// ring of fewer than 2*every ranks, the last checkpoints of two ranks are at most every steps apart.
const every = 10

// cells is the number of cells of a rank.
const cells = 1000

func main() {
	dir := flag.String("dir", "", "folder for checkpoints, shared by all nodes")
	steps := flag.Uint64("steps", 100, "number of steps")
	pause := flag.Duration("pause", 5*time.Millisecond, "pause after each step")
	face := flag.Int("face", 4096, "additional bytes of each message")
	flag.Parse()
	w, err := ibrun.Init(context.Background())
	if err == nil {
		r := &rank{w: w, dir: *dir, steps: *steps, pause: *pause, face: *face}
		if err = r.run(); err != nil {
			w.Abort(1, err.Error()) // because ibrun would restart a rank that only exits
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "survivor: %v\n", err)
		os.Exit(1)
	}
}

// rank is one rank of the ring.
type rank struct {
	w     *ibrun.World
	dir   string
	steps uint64
	pause time.Duration
	face  int

	round uint64 // how often the ranks have agreed on a checkpoint
	step  uint64 // the number of steps that own includes
	own   []uint64
	last  uint64 // the step of the last checkpoint that this rank wrote or loaded
}

// first returns the cells of a rank before the first step.
func first(rank int) (own []uint64) {
	own = make([]uint64, cells)
	for i := range own {
		own[i] = uint64(rank*cells+i) * 0x9e3779b97f4a7c15
	}
	return own
}

// next returns the cells of a rank after one step. left and right are the adjacent cells of its neighbours. The cells
// are integers, so that the result does not depend on rounding.
func next(own []uint64, left, right uint64) []uint64 {
	out := make([]uint64, len(own))
	for i, v := range own {
		before, after := left, right
		if i > 0 {
			before = own[i-1]
		}
		if i < len(own)-1 {
			after = own[i+1]
		}
		out[i] = before ^ (v*3 + after)
	}
	return out
}

// sum returns the checksum of a rank's cells. The result is the sum over all ranks.
func sum(rank int, own []uint64) (s uint64) {
	for i, v := range own {
		s += v * uint64(2*(rank*cells+i)+1)
	}
	return s
}

// run attempts the computation again after each restart of a rank, until it succeeds. Rank 0 prints the result.
func (r *rank) run() error {
	ctx := context.Background()
	own := first(r.w.Rank())
	if err := r.recover(); err != nil {
		return err
	}
	if r.own == nil {
		r.own = own
		if err := r.checkpoint(); err != nil {
			return err
		}
	}
	for {
		total, err := r.attempt(ctx)
		if err == nil {
			if r.w.Rank() == 0 {
				fmt.Printf("result %x after %d rounds\n", total, r.round)
			}
			return r.w.Finalize(ctx)
		}
		var restarted *ibrun.RestartError
		if !errors.As(err, &restarted) && !errors.Is(err, ibrun.ErrRestarted) {
			return fmt.Errorf("step %d of round %d: %w", r.step, r.round, err)
		}
		r.w.Restarts() // acknowledges the restarts, so that later calls succeed
	}
}

// attempt agrees with all ranks on a checkpoint and loads it. Then it computes the remaining steps and returns the
// result.
func (r *rank) attempt(ctx context.Context) (total uint64, err error) {
	mine := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, r.round), r.last)
	all, err := r.w.AllGather(ctx, mine)
	if err != nil {
		return 0, err
	}
	from := r.last
	for _, v := range all {
		r.round = max(r.round, binary.BigEndian.Uint64(v))
		from = min(from, binary.BigEndian.Uint64(v[8:]))
	}
	r.round++
	if err := r.load(from); err != nil {
		return 0, err
	}
	if r.w.Rank() == 0 {
		fmt.Printf("round %d from step %d\n", r.round, from)
	}
	for r.step < r.steps {
		if err := r.advance(ctx); err != nil {
			return 0, err
		}
	}
	parts, err := r.w.AllGather(ctx, binary.BigEndian.AppendUint64(nil, sum(r.w.Rank(), r.own)))
	for _, p := range parts {
		total += binary.BigEndian.Uint64(p)
	}
	return total, err
}

// advance exchanges cells with both neighbours and computes one step. It writes a checkpoint after every steps.
func (r *rank) advance(ctx context.Context) error {
	size := r.w.Size()
	left, right := (r.w.Rank()+size-1)%size, (r.w.Rank()+1)%size
	if err := r.send(ctx, left, r.own[0]); err != nil {
		return err
	}
	if err := r.send(ctx, right, r.own[cells-1]); err != nil {
		return err
	}
	before, err := r.receive(ctx, left)
	if err != nil {
		return err
	}
	after, err := r.receive(ctx, right)
	if err != nil {
		return err
	}
	r.own, r.step = next(r.own, before, after), r.step+1
	if r.step%every == 0 {
		if err := r.checkpoint(); err != nil {
			return err
		}
		if r.w.Rank() == 0 {
			fmt.Printf("step %d\n", r.step)
		}
	}
	time.Sleep(r.pause)
	return nil
}

// head is the number of bytes at the beginning of a message: the round, the step and the value.
const head = 3 * 8

func (r *rank) send(ctx context.Context, to int, value uint64) error {
	m := make([]byte, head+r.face)
	binary.BigEndian.PutUint64(m, r.round)
	binary.BigEndian.PutUint64(m[8:], r.step)
	binary.BigEndian.PutUint64(m[16:], value)
	return r.w.Send(ctx, to, m)
}

// receive returns the value that a neighbour sent for this step. It drops messages of earlier rounds.
func (r *rank) receive(ctx context.Context, from int) (uint64, error) {
	for {
		m, err := r.w.RecvFrom(ctx, from)
		if err != nil {
			return 0, err
		}
		round, step := binary.BigEndian.Uint64(m), binary.BigEndian.Uint64(m[8:])
		value := binary.BigEndian.Uint64(m[16:])
		whole := len(m) == head+r.face
		r.w.Free(m)
		switch {
		case round < r.round:
		case round > r.round || step != r.step || !whole:
			return 0, fmt.Errorf("a message of step %d of round %d from rank %d", step, round, from)
		default:
			return value, nil
		}
	}
}

func (r *rank) file(step uint64) string {
	return filepath.Join(r.dir, fmt.Sprintf("%d.%d", r.w.Rank(), step))
}

// checkpoint writes a checkpoint of this step, and removes that of 3*every steps before, which no rank needs.
func (r *rank) checkpoint() error {
	b := make([]byte, 0, cells*8)
	for _, v := range r.own {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	part := filepath.Join(r.dir, fmt.Sprintf("part.%d", r.w.Rank()))
	if err := os.WriteFile(part, b, 0o600); err != nil {
		return err
	}
	if err := os.Rename(part, r.file(r.step)); err != nil {
		return err
	}
	r.last = r.step
	if r.step >= 3*every {
		_ = os.Remove(r.file(r.step - 3*every)) // may fail after a restart, if the file was removed before
	}
	return nil
}

// recover loads the last checkpoint of this rank, if ibrun has restarted the rank and there is one.
func (r *rank) recover() error {
	if r.w.Restarted() == 0 {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(r.dir, fmt.Sprintf("%d.*", r.w.Rank())))
	if err != nil {
		return err
	}
	found := false
	for _, f := range files {
		var of int
		var step uint64
		if _, err := fmt.Sscanf(filepath.Base(f), "%d.%d", &of, &step); err == nil {
			r.last, found = max(r.last, step), true
		}
	}
	if !found {
		return nil
	}
	return r.load(r.last)
}

func (r *rank) load(step uint64) error {
	b, err := os.ReadFile(r.file(step))
	if err != nil {
		return err
	}
	if len(b) != cells*8 {
		return fmt.Errorf("%s has %d bytes", r.file(step), len(b))
	}
	r.own, r.step, r.last = make([]uint64, cells), step, step
	for i := range r.own {
		r.own[i] = binary.BigEndian.Uint64(b[8*i:])
	}
	return nil
}
