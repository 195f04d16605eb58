//go:build cluster

package attack

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	app "ibrun"
)

// work is a rank of the victim's. Ranks pass messages around a ring, which nobody
// may change, add, take or repeat, until the first one is told something: to send
// long messages to the next one or to all, or to stop.
func work([]string) int {
	w, err := app.Init(context.Background())
	if err == nil {
		err = (&worker{World: w}).rounds()
	}
	if err == nil {
		err = w.Finalize(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

type worker struct {
	*app.World
	round int
}

// message is what a rank has for another in a round.
func message(from, to, round, length int) []byte {
	return append(fmt.Appendf(nil, "%d to %d in round %d ", from, to, round), bytes.Repeat([]byte{byte(round)},
		length)...)
}

func (w *worker) rounds() error {
	ctx := context.Background()
	orders := make(chan string)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			orders <- in.Text()
		}
	}()
	for {
		var order []byte
		if w.Rank() == 0 {
			select {
			case text := <-orders:
				order = []byte(text)
			case <-time.After(50 * time.Millisecond): // the nodes have two CPUs for all
			}
		}
		order, err := w.Broadcast(ctx, 0, order)
		if err != nil {
			return err
		}
		w.round++
		switch string(order) {
		case "all":
			err = w.exchange(ctx, 1, w.Size(), 300<<10)
		case "near":
			err = w.exchange(ctx, 1, 2, 300<<10)
		default:
			err = w.exchange(ctx, 1, 2, 0)
		}
		if err != nil {
			return err
		}
		if w.Rank() == 0 && (w.round == 1 || len(order) > 0) {
			fmt.Printf("round %d done%s\n", min(w.round, 2), order)
		}
		if string(order) == "stop" {
			return nil
		}
	}
}

// exchange sends a message to each rank from some distances ahead, and takes theirs.
func (w *worker) exchange(ctx context.Context, from, to, length int) error {
	sent := make(chan error, 1)
	go func() {
		for d := from; d < to; d++ {
			peer := (w.Rank() + d) % w.Size()
			if err := w.Send(ctx, peer, message(w.Rank(), peer, w.round, length)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for d := from; d < to; d++ {
		peer := (w.Rank() + w.Size() - d) % w.Size()
		m, err := w.RecvFrom(ctx, peer)
		if err != nil {
			return err
		}
		if want := message(peer, w.Rank(), w.round, length); !bytes.Equal(m, want) {
			return fmt.Errorf("rank %d in round %d got %.60q from %d", w.Rank(), w.round, m, peer)
		}
	}
	return <-sent
}
