// Command ring passes a token around all ranks: each receives from the left and sends to the right,
// so each uses two peers and nobody learns the address of anybody else.
//
//	ibrun -n 256 --hosts 'node[0001-0016]' --lazy --stats ./ring
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"os"

	"ibrun"
)

func main() {
	rounds := flag.Int("rounds", 3, "times around")
	length := flag.Int("bytes", 8, "of the token, at least 8")
	flag.Parse()
	if err := run(context.Background(), *rounds, max(8, *length)); err != nil {
		fmt.Fprintln(os.Stderr, "ring:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds, length int) error {
	w, err := ibrun.Init(ctx)
	if err != nil {
		return err
	}
	left, right := (w.Rank()+w.Size()-1)%w.Size(), (w.Rank()+1)%w.Size()
	token := make([]byte, length)
	for round := range rounds {
		if w.Rank() != 0 {
			if token, err = w.RecvFrom(ctx, left); err != nil {
				return err
			}
		}
		binary.LittleEndian.PutUint64(token, binary.LittleEndian.Uint64(token)+1)
		if err := w.Send(ctx, right, token); err != nil {
			return err
		}
		if w.Rank() == 0 {
			if token, err = w.RecvFrom(ctx, left); err != nil {
				return err
			}
			if got, want := binary.LittleEndian.Uint64(token), uint64((round+1)*w.Size()); got != want {
				return fmt.Errorf("round %d: the token counts %d of %d ranks", round, got, want)
			}
		}
	}
	if w.Rank() == 0 {
		fmt.Printf("the token went %d times around %d ranks\n", rounds, w.Size())
	}
	return w.Finalize(ctx)
}
