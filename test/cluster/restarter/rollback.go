package main

import (
	"context"
	"fmt"
	"time"

	"ibrun"
)

// rollbacks lets all ranks start again as often as that, each time because another one asks for it,
// after all have sent to all. No message of another start may come.
func rollbacks(times int) error {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		return err
	}
	if err := everywhere(ctx, w); err != nil {
		w.Abort(1, err.Error())
	}
	start := w.Restarted()
	if start < times && w.Rank() == start%w.Size() {
		return w.Rollback(fmt.Sprintf("start %d is not good enough", start))
	}
	if start < times {
		_, m, err := w.Recv(ctx) // until this process ends
		w.Abort(1, fmt.Sprintf("after all: %d bytes, %v", len(m), err))
	}
	fmt.Printf("rank %d: start %d\n", w.Rank(), start)
	return w.Finalize(ctx)
}

// everywhere sends to all and receives from all, by messages and by the tree.
func everywhere(ctx context.Context, w *ibrun.World) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	start := byte(w.Restarted())
	for to := range w.Size() {
		if err := w.Send(ctx, to, []byte{start, byte(w.Rank())}); err != nil {
			return err
		}
	}
	for range w.Size() {
		from, m, err := w.Recv(ctx)
		if err != nil {
			return err
		}
		if len(m) != 2 || m[0] != start || int(m[1]) != from {
			return fmt.Errorf("start %d got %v of rank %d", start, m, from)
		}
	}
	all, err := w.AllGather(ctx, []byte{start})
	if err != nil {
		return err
	}
	for rank, m := range all {
		if len(m) != 1 || m[0] != start {
			return fmt.Errorf("start %d gathers %v of rank %d", start, m, rank)
		}
	}
	return nil
}
