package cluster

import (
	"cmp"
	"context"

	"ibrun/test/skip"
)

// TB is the part of testing.TB that Require uses.
type TB interface {
	Helper()
	Name() string
	Context() context.Context
	Cleanup(func())
	Skip(...any)
	Fatal(...any)
	Error(...any)
}

// TestKex is the key exchange of clusters for tests. The one that OpenSSH prefers, sntrup761, costs both sides
// about 50 ms of CPU time more for each session.
const TestKex = "curve25519-sha256"

// Require calls Up for a test, and closes the cluster when the test ends. If cfg.Kex is empty, it uses TestKex. Require
// skips the test if it does not run as root, and fails it if Up returns another error.
func Require(t TB, cfg Config) *Cluster {
	t.Helper()
	cfg.Kex = cmp.Or(cfg.Kex, TestKex)
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
