package cluster

import (
	"context"

	"ibrun/internal/skip"
)

// TB is what Require needs of a test or benchmark.
type TB interface {
	Helper()
	Name() string
	Context() context.Context
	Cleanup(func())
	Skip(...any)
	Fatal(...any)
	Error(...any)
}

// Require is Up for tests: it skips with the reason where there is no root, fails where a cluster
// should come up and does not, and closes it when the test ends.
func Require(t TB, cfg Config) *Cluster {
	t.Helper()
	c, err := Up(t.Context(), cfg)
	if err == ErrNotRoot { //nolint:errorlint // Up returns it bare
		skip.Because(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
