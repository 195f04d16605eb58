package options_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/product"
)

// built is ibrun as it ships, made when the first test wants it.
var built struct {
	sync.Once
	dir, path string
	err       error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// started runs the real ibrun, and returns all that it showed.
func started(t *testing.T, line []string) string {
	t.Helper()
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "ibrun-test"); built.err == nil {
			built.path = filepath.Join(built.dir, "ibrun")
			built.err = product.Build(built.path)
		}
	})
	require.NoError(t, built.err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, built.path, line...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cmd.Dir)
	out, _ := cmd.CombinedOutput() // the code is not what is looked at
	return string(out)
}
