// Command resize spreads heat over a plate, whose rows the ranks share in slabs, and goes on while
// the job grows and shrinks. The sum at the end does not depend on how many ranks there were.
//
//	ibrun -n 64 --hosts 'node[0001-0008]' ./resize -steps 2000 &
//	ibrun ctl grow 'node[0009-0012]'
//	ibrun ctl shrink 4
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"time"

	"ibrun"
)

func main() {
	p := plate{}
	flag.IntVar(&p.rows, "rows", 384, "rows of the plate, at least one for each rank")
	flag.IntVar(&p.columns, "columns", 64, "columns of the plate")
	steps := flag.Int("steps", 200, "steps")
	every := flag.Int("every", 10, "steps between two looks whether the job changes its size")
	changes := flag.Int("changes", 0, "changes of the job's size to wait for before the end")
	pause := flag.Duration("pause", 0, "what a step takes besides")
	flag.Parse()
	if err := run(context.Background(), &p, *steps, *every, *changes, *pause); err != nil {
		fmt.Fprintln(os.Stderr, "resize:", err)
		os.Exit(1)
	}
}

// plate is one rank's slab of the whole, in integers, so that sums are exact.
type plate struct {
	rows, columns int
	first         int        // row of the plate
	slab          [][]uint32 // of this rank
	step          int
}

// share is where the slab of a rank begins. Rank size has the end of the plate.
func (p *plate) share(rank, size int) int { return rank * p.rows / size }

// owner is the rank that has a row.
func (p *plate) owner(row, size int) int {
	rank := row * size / p.rows
	for p.share(rank+1, size) <= row {
		rank++
	}
	return rank
}

func run(ctx context.Context, p *plate, steps, every, changes int, pause time.Duration) error {
	w, err := ibrun.Init(ctx)
	if err != nil {
		return err
	}
	if p.rows < w.Size() {
		return fmt.Errorf("%d rows for %d ranks", p.rows, w.Size())
	}
	came := w.Resized() > 0
	if came {
		err = p.arrive(ctx, w)
	} else {
		p.begin(w)
		_, err = w.Resize(ctx, nil) // this program can change its size
	}
	for err == nil && (p.step < steps || w.Resized() < changes) {
		if !came && (p.step%every == 0 || p.step >= steps) {
			if err = p.resize(ctx, w); err != nil || w.Rank() >= w.Size() {
				break
			}
		}
		came = false
		if p.step < steps {
			err = p.exchange(ctx, w)
		}
		p.step++
		time.Sleep(pause)
	}
	if err == nil && w.Rank() < w.Size() {
		err = p.report(ctx, w, steps)
	}
	if err != nil {
		return err
	}
	return w.Finalize(ctx)
}

// begin fills the slab of this rank.
func (p *plate) begin(w *ibrun.World) {
	p.first = p.share(w.Rank(), w.Size())
	for row := p.first; row < p.share(w.Rank()+1, w.Size()); row++ {
		line := make([]uint32, p.columns)
		for i := range line {
			line[i] = uint32(row*7919+i*104729) % 65536
		}
		p.slab = append(p.slab, line)
	}
}

// exchange is one step: each point becomes the mean of itself and its four neighbours.
func (p *plate) exchange(ctx context.Context, w *ibrun.World) error {
	above, below := w.Rank()-1, w.Rank()+1
	if above >= 0 {
		if err := w.Send(ctx, above, pack(p.slab[:1])); err != nil {
			return err
		}
	}
	if below < w.Size() {
		if err := w.Send(ctx, below, pack(p.slab[len(p.slab)-1:])); err != nil {
			return err
		}
	}
	edge := func(from int) ([]uint32, error) {
		if from < 0 || from >= w.Size() {
			return make([]uint32, p.columns), nil
		}
		m, err := w.RecvFrom(ctx, from)
		if err != nil {
			return nil, err
		}
		return unpack(m, p.columns)[0], nil
	}
	up, err := edge(above)
	if err != nil {
		return err
	}
	down, err := edge(below)
	if err != nil {
		return err
	}
	next := make([][]uint32, len(p.slab))
	for i, line := range p.slab {
		north, south := up, down
		if i > 0 {
			north = p.slab[i-1]
		}
		if i < len(p.slab)-1 {
			south = p.slab[i+1]
		}
		next[i] = make([]uint32, p.columns)
		for k := range line {
			sum := line[k] + north[k] + south[k]
			if k > 0 {
				sum += line[k-1]
			}
			if k < p.columns-1 {
				sum += line[k+1]
			}
			next[i][k] = sum / 5
		}
	}
	p.slab = next
	return nil
}

// resize lets the job change its size, if it is asked to.
func (p *plate) resize(ctx context.Context, w *ibrun.World) error {
	change, err := w.Resize(ctx, func(r ibrun.Resize) error { return p.move(ctx, w, r) })
	if err != nil || !change.Grows() {
		return err
	}
	return p.hand(ctx, w, change)
}

// hand tells the ranks that have come how far the others are, and gives them rows.
func (p *plate) hand(ctx context.Context, w *ibrun.World, change ibrun.Resize) error {
	told := binary.LittleEndian.AppendUint64(nil, uint64(p.step)<<32|uint64(change.Old))
	if _, err := w.Broadcast(ctx, 0, told); err != nil {
		return err
	}
	return p.move(ctx, w, change)
}

// arrive takes what hand gives.
func (p *plate) arrive(ctx context.Context, w *ibrun.World) error {
	m, err := w.Broadcast(ctx, 0, nil)
	if err != nil {
		return err
	}
	told := binary.LittleEndian.Uint64(m)
	p.step = int(told >> 32)
	return p.move(ctx, w, ibrun.Resize{Old: int(told & (1<<32 - 1)), New: w.Size()})
}

// move brings each row from its owner among the old ranks to that among the new ones. Ranks of both
// call it.
func (p *plate) move(ctx context.Context, w *ibrun.World, change ibrun.Resize) error {
	me := w.Rank()
	if me < change.Old {
		for row := p.first; row < p.share(me+1, change.Old); {
			to := p.owner(row, change.New)
			end := min(p.share(to+1, change.New), p.share(me+1, change.Old))
			if to != me {
				if err := w.Send(ctx, to, pack(p.slab[row-p.first:end-p.first])); err != nil {
					return err
				}
			}
			row = end
		}
	}
	if me >= change.New {
		return nil
	}
	first, last := p.share(me, change.New), p.share(me+1, change.New)
	var slab [][]uint32
	for row := first; row < last; {
		from := p.owner(row, change.Old)
		end := min(p.share(from+1, change.Old), last)
		if from == me {
			slab = append(slab, p.slab[row-p.first:end-p.first]...)
		} else {
			m, err := w.RecvFrom(ctx, from)
			if err != nil {
				return err
			}
			slab = append(slab, unpack(m, p.columns)...)
		}
		row = end
	}
	p.first, p.slab = first, slab
	return nil
}

// report prints a sum over the whole plate.
func (p *plate) report(ctx context.Context, w *ibrun.World, steps int) error {
	all, err := w.Gather(ctx, 0, pack(p.slab))
	if err != nil || w.Rank() != 0 {
		return err
	}
	sum := fnv.New64a()
	for _, part := range all {
		_, _ = sum.Write(part)
	}
	_, err = fmt.Printf("%d steps: sum %016x; %d ranks at the end, resized %d times\n", steps, sum.Sum64(), w.Size(),
		w.Resized())
	return err
}

func pack(rows [][]uint32) (m []byte) {
	for _, line := range rows {
		for _, v := range line {
			m = binary.LittleEndian.AppendUint32(m, v)
		}
	}
	return m
}

func unpack(m []byte, columns int) (rows [][]uint32) {
	for len(m) > 0 {
		line := make([]uint32, columns)
		for i := range line {
			line[i], m = binary.LittleEndian.Uint32(m), m[4:]
		}
		rows = append(rows, line)
	}
	return rows
}
