//go:build cluster

package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/skip"
)

// A rank, or whoever speaks for one, names files of shared memory that the agent
// removes at the end. Those of other users, which root could remove, stay.
func TestRemoveShared(t *testing.T) {
	if os.Geteuid() != 0 {
		skip.Because(t, "only root can make files of another user")
	}
	dir := t.TempDir()
	mine, theirs, full := filepath.Join(dir, "mine"), filepath.Join(dir, "theirs"), filepath.Join(dir, "full")
	require.NoError(t, os.WriteFile(mine, nil, 0o600))
	require.NoError(t, os.WriteFile(theirs, nil, 0o600))
	require.NoError(t, os.Lchown(theirs, 65534, 65534))
	require.NoError(t, os.MkdirAll(filepath.Join(full, "below"), 0o700))
	removeShared([]string{mine, theirs, full, filepath.Join(dir, "gone"), "/nowhere/file"})
	require.NoFileExists(t, mine)
	require.FileExists(t, theirs)
	require.DirExists(t, full)
}
