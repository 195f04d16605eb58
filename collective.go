package ibrun

import (
	"context"
	"errors"
	"fmt"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Barrier waits until every rank has called it.
//
// If ctx ends first, Barrier returns its error: this rank counts as one that has called it, so that
// other ranks may return from the same Barrier without an error.
func (w *World) Barrier(ctx context.Context) error {
	if err := w.usable(); err != nil {
		return err
	}
	return w.barrier(ctx)
}

func (w *World) barrier(ctx context.Context) error {
	_, err := w.gather(ctx, rankwire.Collect{What: rankwire.Barrier})
	return err
}

// Broadcast gives every rank the root's value, of less than 48 MiB. The values of other ranks are
// not used.
//
// If ctx ends first, Broadcast returns its error: this rank has taken part, the other ranks get the
// value, and the value for this one is discarded.
func (w *World) Broadcast(ctx context.Context, root int, value []byte) ([]byte, error) {
	m := rankwire.Collect{What: rankwire.Broadcast, Root: job.Rank(root)}
	if root == w.Rank() {
		m.Parcels = w.parcel(rankwire.Everyone, value)
	}
	return first(w.collective(ctx, root, m))
}

// Gather gives the root the value of each rank, by rank; others get nil. All values together have
// less less than 48 MiB.
//
// If ctx ends first, Gather returns its error: this rank's value is part of the result
// nevertheless, and at the root the result is discarded.
func (w *World) Gather(ctx context.Context, root int, value []byte) ([][]byte, error) {
	m := rankwire.Collect{What: rankwire.Gather, Root: job.Rank(root)}
	if slot, err := w.slot("Gather", root); err == nil { // otherwise collective says so
		m.Parcels = w.parcel(slot, value)
	}
	values, err := w.byRank(w.collective(ctx, root, m))
	if root != w.Rank() {
		return nil, err
	}
	return values, err
}

// AllGather gives every rank the value of each rank, by rank. All values together have less than 48
// MiB.
//
// If ctx ends first, AllGather returns its error: this rank's value is part of what other ranks get
// nevertheless, and the result for this one is discarded.
func (w *World) AllGather(ctx context.Context, value []byte) ([][]byte, error) {
	m := rankwire.Collect{What: rankwire.AllGather, Parcels: w.parcel(rankwire.Everyone, value)}
	return w.byRank(w.collective(ctx, 0, m))
}

// Scatter gives each rank its part of the root's values, of which there must be Size(), of less
// than 48 MiB together. The values of other ranks are not used.
//
// If ctx ends first, Scatter returns its error: this rank has taken part, the other ranks get their
// values, and the value for this one is discarded.
func (w *World) Scatter(ctx context.Context, root int, values [][]byte) ([]byte, error) {
	m := rankwire.Collect{What: rankwire.Scatter, Root: job.Rank(root)}
	if root == w.Rank() {
		if err := w.onePerRank("Scatter", values); err != nil {
			return nil, err
		}
		m.Parcels = w.parcels(values)
	}
	return first(w.collective(ctx, root, m))
}

// AllToAll gives each rank, by rank, what every rank has for it. There must be Size() values. All
// values of all ranks together have less than 48 MiB.
//
// If ctx ends first, AllToAll returns its error: the other ranks get this rank's values
// nevertheless, and the result for this one is discarded.
func (w *World) AllToAll(ctx context.Context, values [][]byte) ([][]byte, error) {
	if err := w.onePerRank("AllToAll", values); err != nil {
		return nil, err
	}
	return w.byRank(w.collective(ctx, 0, rankwire.Collect{What: rankwire.AllToAll, Parcels: w.parcels(values)}))
}

func (w *World) onePerRank(op string, values [][]byte) error {
	if len(values) != w.Size() {
		return fmt.Errorf("ibrun: %s: %d values for %d ranks: %w", op, len(values), w.Size(), ErrValueCount)
	}
	return nil
}

func (w *World) parcel(to job.Slot, value []byte) rankwire.Parcels {
	return rankwire.NewParcels(rankwire.Parcel{From: w.welcome.Rank, To: to, Value: value})
}

func (w *World) parcels(values [][]byte) rankwire.Parcels {
	p := make([]rankwire.Parcel, len(values))
	for i, v := range values {
		p[i] = rankwire.Parcel{From: w.welcome.Rank, To: w.layout.Load().Slot(job.Rank(i)), Value: v}
	}
	return rankwire.NewParcels(p...)
}

func (w *World) byRank(parcels rankwire.Parcels, err error) ([][]byte, error) {
	if err != nil {
		return nil, err
	}
	values := make([][]byte, w.Size())
	for p := range parcels.All() {
		if int(p.From) < len(values) {
			values[w.rank(p.From)] = p.Value
		}
	}
	return values, nil
}

func first(parcels rankwire.Parcels, err error) ([]byte, error) {
	for p := range parcels.All() {
		return p.Value, err
	}
	return nil, err
}

func (w *World) usable() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finalized {
		return ErrFinalized
	}
	return w.lost
}

func (w *World) collective(ctx context.Context, root int, m rankwire.Collect) (rankwire.Parcels, error) {
	if err := w.usable(); err != nil {
		return rankwire.Parcels{}, err
	}
	if _, err := w.slot(m.What.String(), root); err != nil {
		return rankwire.Parcels{}, err
	}
	if size := m.Parcels.Size(); size > rankwire.MaxGather {
		return rankwire.Parcels{}, fmt.Errorf("ibrun: %v: %d bytes, at most %d go through the launch tree; use Send: "+
			"%w", m.What, size, rankwire.MaxGather, ErrTooLong)
	}
	return w.gather(ctx, m)
}

// gather takes part in one collective and waits for its outcome. If the context ends first the rank
// has joined nevertheless: the agents count collectives, and a rank that left one out would meet
// the others in the wrong one.
func (w *World) gather(ctx context.Context, m rankwire.Collect) (rankwire.Parcels, error) {
	switch {
	case w.control == nil:
		return m.Parcels, nil
	case w.left():
		return rankwire.Parcels{}, ErrLeft
	}
	outcome := make(chan rankwire.Release, 1)
	w.mu.Lock()
	w.op++
	m.Op = w.op
	w.releases[m.Op] = outcome
	err := w.send(m) // under the lock: collectives leave in their order
	w.mu.Unlock()
	if err != nil {
		return rankwire.Parcels{}, err
	}
	r, err := await(ctx, w, outcome)
	if err == nil && r.Trouble != "" {
		err = &CollectiveError{m.What.String(), w.cause(r)}
	}
	return r.Parcels, err
}

// await waits for an answer of the agent. If ctx ends first, await returns the error of ctx. If the agent is lost,
// await returns the reason.
func await[T any](ctx context.Context, w *World, answer <-chan T) (got T, err error) {
	select {
	case got = <-answer:
		return got, nil
	case <-ctx.Done():
		return got, ctx.Err()
	case <-w.over:
		return got, w.agentError()
	}
}

// cause is why a collective failed.
func (w *World) cause(r rankwire.Release) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Op <= w.floor {
		return ErrRestarted
	}
	return errors.New(r.Trouble)
}

// send sends a frame to this node's agent.
func (w *World) send(m frame.Message) error {
	if err := w.control.Send(m); err != nil {
		return &AgentError{err}
	}
	return nil
}

func (w *World) released(m rankwire.Release) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if outcome := w.releases[m.Op]; outcome != nil {
		delete(w.releases, m.Op)
		outcome <- m
	}
}
