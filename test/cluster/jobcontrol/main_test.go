//go:build cluster || soak

// Package jobcontrol runs the real binary under a shell on a pseudo terminal,
// and stops, continues and kills its jobs. Its tests wait for most of their time.
package jobcontrol

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	app "ibrun"
	"ibrun/test/product"
)

// program is ibrun as it ships.
var program string

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == ":ring" {
		if err := ring(context.Background(), os.Args[2]); err != nil {
			fmt.Println("ring:", err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "40") // they wait
	os.Exit(product.Run(m, &program))
}

// ring is a rank that sends numbered messages to the next one, as fast as that takes
// them, and takes those of the one before it, until a file exists. None may be
// missing. Small ones and blocks are mixed, so the pair moves to a stream.
func ring(ctx context.Context, until string) error {
	w, err := app.Init(ctx)
	if err != nil {
		return err
	}
	next, before := (w.Rank()+1)%w.Size(), (w.Rank()+w.Size()-1)%w.Size()
	fmt.Printf("rank %d turns\n", w.Rank())
	for last := false; !last; {
		var vote byte
		if _, err := os.Stat(until); err == nil {
			vote = 1
		}
		// Whether this is the last time is decided by all, so that nobody waits for a rank that has
		// ended.
		votes, err := w.AllGather(ctx, []byte{vote})
		if err != nil {
			return err
		}
		for _, v := range votes {
			last = last || v[0] != 0
		}
		sent := make(chan error, 1)
		go func() { sent <- burst(ctx, w, next) }()
		if err := errors.Join(take(ctx, w, before), <-sent); err != nil {
			return err
		}
	}
	fmt.Printf("rank %d is done\n", w.Rank())
	return w.Finalize(ctx)
}

// messages is how many there are in a burst, of the sizes in turn.
const messages = 40

var sizes = [...]int{8, 256 << 10, 8, 4 << 10}

func burst(ctx context.Context, w *app.World, to int) error {
	for i := range messages {
		m := make([]byte, sizes[i%len(sizes)])
		binary.LittleEndian.PutUint64(m, uint64(i))
		if err := w.Send(ctx, to, m); err != nil {
			return err
		}
	}
	return nil
}

func take(ctx context.Context, w *app.World, from int) error {
	for i := range messages {
		m, err := w.RecvFrom(ctx, from)
		if err != nil {
			return err
		}
		if len(m) != sizes[i%len(sizes)] || binary.LittleEndian.Uint64(m) != uint64(i) {
			return fmt.Errorf("message %d of rank %d is missing", i, from)
		}
		w.Free(m)
	}
	return nil
}
