package ib

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ibrun/fabric"
)

// levels caches the service level of the path to each peer, by the GID of the peer's port. It asks the subnet manager
// once for each port, before the first packet is sent there. Some routing engines (Torus-2QoS, LASH, DFSSSP) avoid
// deadlocks only if packets use the level that the subnet manager returns. A levels is safe for concurrent use.
type levels struct {
	ctx  context.Context // done when the endpoint is closed
	ask  func(ctx context.Context, gid [16]byte) (uint8, error)
	slow chan struct{} // semaphore of capacity mostAsking, held while a query runs

	mu    sync.Mutex
	known map[[16]byte]*level
}

// level holds the result of a query, or represents a query that is still running.
type level struct {
	done chan struct{} // closed when the other fields are set
	sl   uint8
	err  error
	at   time.Time // when the query ended
}

const (
	// mostAsking is the maximum number of concurrent queries of one rank. It is low because all ranks of the cluster
	// query the same subnet manager.
	mostAsking = 4
	// askAgain is the time after a failed query until the port may be queried again.
	askAgain = time.Second
	// askFor is the maximum time of one query. Within it, Source.resolve asks up to askTries times and waits
	// askPatience milliseconds for each reply.
	askFor = 10 * time.Second
)

// newLevels returns an empty cache that calls ask to query the subnet manager. When ctx is done, queries fail.
func newLevels(ctx context.Context, ask func(context.Context, [16]byte) (uint8, error)) *levels {
	return &levels{ctx: ctx, ask: ask, slow: make(chan struct{}, mostAsking), known: map[[16]byte]*level{}}
}

// of returns the level for the port of a peer, or errNoGID if the tuple has no GID. It starts a query if there is none
// yet, or if the last one failed more than askAgain ago.
func (s *levels) of(peer fabric.Tuple) (*level, error) {
	if peer.Kind != fabric.IBGID {
		return nil, errNoGID
	}
	gid := peer.Addr
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.known[gid]
	if v != nil {
		select {
		case <-v.done:
			if v.err == nil || time.Since(v.at) < askAgain {
				return v, nil
			}
		default:
			return v, nil
		}
	}
	if len(s.known) >= mostHandles {
		clear(s.known) // waiting callers keep their *level
	}
	v = &level{done: make(chan struct{})}
	s.known[gid] = v
	go func() {
		s.slow <- struct{}{}
		defer func() { <-s.slow }()
		ctx, cancel := context.WithTimeout(s.ctx, askFor)
		defer cancel()
		v.sl, v.err = s.ask(ctx, gid)
		v.at = time.Now()
		close(v.done)
	}()
	return v, nil
}

// now returns the service level of the path to a peer. It returns errFull while the query runs: the datagram is
// dropped, and the sender repeats it.
func (s *levels) now(to fabric.Tuple) (uint8, error) {
	v, err := s.of(to)
	if err != nil {
		return 0, err
	}
	select {
	case <-v.done:
		return v.sl, v.err
	default:
		return 0, errFull
	}
}

// wait is like now, but waits for the query until ctx is done.
func (s *levels) wait(ctx context.Context, to fabric.Tuple) (uint8, error) {
	v, err := s.of(to)
	if err != nil {
		return 0, err
	}
	select {
	case <-v.done:
		return v.sl, v.err
	case <-ctx.Done():
		return 0, fmt.Errorf("no service level yet: %w", ctx.Err())
	}
}

var errNoGID = errors.New("ib: its address has no GID to ask the subnet manager about: give all ranks the same --sl")

var errFull = errors.New("no room in the send queue")
