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
	slots sync.Map // maps an address to a chan struct{} with one element for each session between enter and leave
}

// enter waits for a slot, and returns what gives it back; that may be called
// more than once.
func (g *gate) enter(ctx context.Context, address string) (leave func(), err error) {
	made, _ := g.slots.LoadOrStore(address, make(chan struct{}, perAddress))
	slot := made.(chan struct{})
	select {
	case slot <- struct{}{}:
		return sync.OnceFunc(func() { <-slot }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
