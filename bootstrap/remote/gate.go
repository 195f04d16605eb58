package remote

import (
	"context"
	"sync"
)

// perAddress is how many sessions towards one address may be on their way to
// authentication at a time: from 10 on sshd drops some (MaxStartups 10:30:100).
// It matters where several nodes are behind one sshd.
const perAddress = 6

// gate limits the number of sessions that are opened at the same time to one address. The limit is perAddress. The zero
// value is ready to use. A gate is safe for concurrent use.
type gate struct {
	slots sync.Map // maps an address to a chan struct{} with one element per caller of enter that has not called leave
}

// enter waits until fewer than perAddress callers use the address. The caller must call leave when it is done. Later
// calls of leave do nothing.
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
