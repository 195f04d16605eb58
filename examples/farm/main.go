// Command farm shows a program that survives its workers: rank 0 hands out items of work to the
// others and adds up what they return. What a worker had when it failed goes to another one.
//
//	ibrun --keep-going -n 8 --hosts 'node[0001-0004]' ./farm -items 1000 -fail 3
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"syscall"

	"ibrun"
)

func main() {
	items := flag.Int("items", 1000, "items of work")
	fail := flag.Int("fail", 0, "worker that kills itself at its first item; 0: none")
	flag.Parse()
	if err := run(context.Background(), *items, *fail); err != nil {
		fmt.Fprintln(os.Stderr, "farm:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, items, fail int) error {
	w, err := ibrun.Init(ctx)
	if err != nil {
		return err
	}
	if w.Rank() > 0 {
		err = work(ctx, w, fail)
	} else {
		err = newFarm(w, items).run(ctx)
	}
	if err != nil {
		return err
	}
	if err := w.Finalize(ctx); !lost(err) { // an item that did not reach a worker that has failed
		return err
	}
	return nil
}

// work squares numbers until rank 0 sends an empty message.
func work(ctx context.Context, w *ibrun.World, fail int) error {
	for {
		m, err := w.RecvFrom(ctx, 0)
		if err != nil || len(m) == 0 {
			return err
		}
		if w.Rank() == fail {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		item := binary.BigEndian.Uint64(m)
		if err := w.Send(ctx, 0, binary.BigEndian.AppendUint64(nil, item*item)); err != nil {
			return err
		}
	}
}

// farm is what rank 0 knows.
type farm struct {
	w     *ibrun.World
	items int
	todo  []int       // not handed out
	with  map[int]int // by worker, the item that it has
	idle  []int       // workers
	sum   uint64
	done  int
}

func newFarm(w *ibrun.World, items int) *farm {
	f := &farm{w: w, items: items, with: map[int]int{}}
	for i := range items {
		f.todo = append(f.todo, i)
	}
	for worker := 1; worker < w.Size(); worker++ {
		f.idle = append(f.idle, worker)
	}
	return f
}

func (f *farm) run(ctx context.Context) error {
	for f.done < f.items {
		if err := f.assign(ctx); err != nil {
			return err
		}
		from, m, err := f.w.Recv(ctx)
		switch {
		case errors.Is(err, ibrun.ErrFailed):
			f.takeBack()
			continue
		case err != nil:
			return err
		}
		f.sum += binary.BigEndian.Uint64(m)
		f.done++
		delete(f.with, from)
		f.idle = append(f.idle, from)
	}
	for _, worker := range f.idle {
		if err := f.w.Send(ctx, worker, nil); err != nil && !lost(err) {
			return err
		}
	}
	fmt.Printf("%d items, sum of squares %d, %d of %d workers failed\n", f.items, f.sum, len(f.w.Failures()),
		f.w.Size()-1)
	return nil
}

// assign gives items to idle workers. One that has failed takes its item along
// until Recv names it.
func (f *farm) assign(ctx context.Context) error {
	for len(f.idle) > 0 && len(f.todo) > 0 {
		worker, item := f.idle[0], f.todo[0]
		f.idle, f.todo = f.idle[1:], f.todo[1:]
		f.with[worker] = item
		if err := f.w.Send(ctx, worker, binary.BigEndian.AppendUint64(nil, uint64(item))); err != nil && !lost(err) {
			return err
		}
	}
	if len(f.idle)+len(f.with) == 0 {
		return errors.New("there is no worker left")
	}
	return nil
}

// takeBack takes the items of all workers that have failed: Recv has named one, and
// does not name again those that Failures returns.
func (f *farm) takeBack() {
	for _, worker := range f.w.Failures() {
		if item, busy := f.with[worker]; busy {
			f.todo = append(f.todo, item)
			delete(f.with, worker)
		}
		for i, idle := range f.idle {
			if idle == worker {
				f.idle = append(f.idle[:i], f.idle[i+1:]...)
				break
			}
		}
	}
}

// lost reports whether messages were lost because their receiver is gone.
func lost(err error) bool {
	var peer *ibrun.PeerError
	return errors.As(err, &peer)
}
