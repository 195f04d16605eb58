package ib

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ibrun/fabric"
)

// levels are the service levels of the ways to peers, by the GIDs of their ports. The subnet
// manager is asked once for each, when the first packet goes there: some routings (Torus-2QoS,
// LASH, DFSSSP) are free of deadlocks only with the level that it gives. Safe for use by several
// goroutines.
type levels struct {
	ctx  context.Context // of the endpoint
	ask  func(ctx context.Context, gid [16]byte) (uint8, error)
	slow chan struct{} // holds who asks now

	mu    sync.Mutex
	known map[[16]byte]*level
}

// level is an answer, or that it is awaited.
type level struct {
	done chan struct{} // closed when the rest is there
	sl   uint8
	err  error
	at   time.Time
}

const (
	// mostAsking bounds the questions of one rank that are under way: a subnet manager has many
	// ranks.
	mostAsking = 4
	// askAgain is how long a failure stands.
	askAgain = time.Second
	// askFor bounds one question. The kernel's own time-out is askPatience, and it asks askTries
	// times.
	askFor = 10 * time.Second
)

// newLevels asks until ctx is done.
func newLevels(ctx context.Context, ask func(context.Context, [16]byte) (uint8, error)) *levels {
	return &levels{ctx: ctx, ask: ask, slow: make(chan struct{}, mostAsking), known: map[[16]byte]*level{}}
}

// of is the answer for a port, which it asks for if nobody has.
func (s *levels) of(gid [16]byte) *level {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.known[gid]
	if v != nil {
		select {
		case <-v.done:
			if v.err == nil || time.Since(v.at) < askAgain {
				return v
			}
		default:
			return v
		}
	}
	if len(s.known) >= mostHandles {
		clear(s.known) // who waits has its own
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
	return v
}

// to is the answer for a peer's port.
func (s *levels) to(peer fabric.Tuple) (*level, error) {
	if peer.Kind != fabric.IBGID {
		return nil, errNoGID
	}
	return s.of(peer.Addr), nil
}

// now is the service level of the way to a peer, errFull if it is not known yet: datagrams do not
// wait, and come again.
func (s *levels) now(to fabric.Tuple) (uint8, error) {
	v, err := s.to(to)
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

// wait is now for those who can wait.
func (s *levels) wait(ctx context.Context, to fabric.Tuple) (uint8, error) {
	v, err := s.to(to)
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
