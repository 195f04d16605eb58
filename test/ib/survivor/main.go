// Command survivor computes a stencil on a ring of ranks. It survives the loss of ranks, nodes and InfiniBand ports,
// and prints the same result as without losses. Each rank writes checkpoints to a folder. After ibrun has restarted a
// rank, all ranks go back to the latest checkpoint that every rank has.
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

// checkpointSteps is the number of steps between two checkpoints. No rank is more than one step ahead of a neighbour.
// So in a ring of fewer than 2*checkpointSteps ranks, the last checkpoints of any two ranks are at most checkpointSteps
// apart.
const checkpointSteps = 10

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
			w.Abort(1, err.Error()) // ends the job; if this rank only exited, ibrun would restart it
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

	round uint64   // how often the ranks have agreed on a checkpoint
	step  uint64   // how many steps this rank has computed
	own   []uint64 // the cells of this rank after step
	last  uint64   // the step of the checkpoint that this rank last wrote or loaded
}

// initialCells returns the cells of a rank before the first step of the computation.
func initialCells(rank int) (own []uint64) {
	own = make([]uint64, cells)
	for i := range own {
		own[i] = uint64(rank*cells+i) * 0x9e3779b97f4a7c15
	}
	return own
}

// nextCells computes one step and returns the new cells of a rank. left and right are the nearest cells of its
// neighbours. The cells are integers, so that the result does not depend on rounding.
func nextCells(own []uint64, left, right uint64) []uint64 {
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

// checksum returns a checksum of the cells of a rank. The sum of the checksums of all ranks is the result of the job.
func checksum(rank int, own []uint64) (s uint64) {
	for i, v := range own {
		s += v * uint64(2*(rank*cells+i)+1)
	}
	return s
}

// run calls attempt until it succeeds. It calls attempt again only if another attempt failed because ibrun restarted a
// rank. Rank 0 prints the result.
func (r *rank) run() error {
	ctx := context.Background()
	own := initialCells(r.w.Rank())
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
		r.w.Restarts() // acknowledges the restarts; without this, further calls would fail
	}
}

// attempt agrees with all ranks on the latest checkpoint that every rank has, loads it, and computes the remaining
// steps. It returns the result of the job.
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
	parts, err := r.w.AllGather(ctx, binary.BigEndian.AppendUint64(nil, checksum(r.w.Rank(), r.own)))
	for _, p := range parts {
		total += binary.BigEndian.Uint64(p)
	}
	return total, err
}

// advance exchanges cells with both neighbours and computes one step. If the number of the step is a multiple of
// checkpointSteps, it also writes a checkpoint.
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
	r.own, r.step = nextCells(r.own, before, after), r.step+1
	if r.step%checkpointSteps == 0 {
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

// headerBytes is the length of the header of a message, which has the round, the step and the cell as 8 bytes each.
const headerBytes = 3 * 8

func (r *rank) send(ctx context.Context, to int, value uint64) error {
	m := make([]byte, headerBytes+r.face)
	binary.BigEndian.PutUint64(m, r.round)
	binary.BigEndian.PutUint64(m[8:], r.step)
	binary.BigEndian.PutUint64(m[16:], value)
	return r.w.Send(ctx, to, m)
}

// receive returns the cell that the neighbour from has sent for this step. It drops messages of earlier rounds, and
// returns an error for any other unexpected message.
func (r *rank) receive(ctx context.Context, from int) (uint64, error) {
	for {
		m, err := r.w.RecvFrom(ctx, from)
		if err != nil {
			return 0, err
		}
		round, step := binary.BigEndian.Uint64(m), binary.BigEndian.Uint64(m[8:])
		value := binary.BigEndian.Uint64(m[16:])
		whole := len(m) == headerBytes+r.face
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

// checkpoint writes a checkpoint of this step. It removes the one from 3*checkpointSteps steps before, to which no rank
// can need to go back.
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
	if r.step >= 3*checkpointSteps {
		_ = os.Remove(r.file(r.step - 3*checkpointSteps)) // fails if it was removed before a restart
	}
	return nil
}

// recover loads the last checkpoint of this rank if ibrun has restarted the rank. Without a restart or a checkpoint, it
// leaves r.own nil.
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
