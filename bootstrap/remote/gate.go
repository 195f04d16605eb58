package remote

import (
	"context"
	"sync"
)

// perAddress is how many sessions towards one address may be on their way to
// authentication at a time: from 10 on sshd drops some (MaxStartups 10:30:100).
// It matters where several nodes are behind one sshd.
const perAddress = 6

// gate lets so many through for each address. The zero value is ready. It is
// safe for concurrent use.
type gate struct {
	mu    sync.Mutex
	slots map[string]chan struct{} // capacity perAddress; full: wait
}

// enter waits for a slot, and returns what gives it back; that may be called
// more than once.
func (g *gate) enter(ctx context.Context, address string) (leave func(), err error) {
	g.mu.Lock()
	if g.slots == nil {
		g.slots = map[string]chan struct{}{}
	}
	slot := g.slots[address]
	if slot == nil {
		slot = make(chan struct{}, perAddress)
		g.slots[address] = slot
	}
	g.mu.Unlock()
	select {
	case slot <- struct{}{}:
		return sync.OnceFunc(func() { <-slot }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
