//go:build leaf

package remote

import (
	"context"
	"errors"
)

// dial leaves all to the user's ssh: the program of a leaf has none of its own, and starts
// other nodes only where an agent above it was lost.
func (s *Starter) dial(_ context.Context, t Target, _ func(Phase)) (*Session, error) {
	return nil, s.leave(t, errors.New("this agent was started as a leaf"))
}
