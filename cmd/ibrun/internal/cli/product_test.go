package cli_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/product"
	"ibrun/test/waitfor"
)

// built is ibrun as it ships, made when the first test wants it, and what it showed for each line.
var built struct {
	sync.Once
	dir, path string
	err       error
	shown     map[string]string
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
		built.shown = map[string]string{}
		if built.dir, built.err = os.MkdirTemp("", "ibrun-test"); built.err == nil {
			built.path = filepath.Join(built.dir, "ibrun")
			built.err = product.Build(built.path)
		}
	})
	require.NoError(t, built.err)
	key := fmt.Sprintf("%q", line)
	if text, done := built.shown[key]; done {
		return text
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitfor.Deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, built.path, line...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "XDG_CACHE_HOME="+cmd.Dir, "XDG_RUNTIME_DIR="+cmd.Dir)
	out, _ := cmd.CombinedOutput() // the code is not what is looked at
	built.shown[key] = string(out)
	return string(out)
}
