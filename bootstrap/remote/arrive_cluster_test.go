//go:build cluster

package remote

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/executable"
	"ibrun/test/waitfor"
)

// A start marks the copy that it runs as used, without making it another file to
// the script; the first one of a build prunes.
func TestArrivalOfACopy(t *testing.T) {
	n := newNode(t, "/bin/sh", "", waitfor.Deadline)
	require.NoError(t, os.MkdirAll(n.cache(), 0o700))
	old := filepath.Join(n.cache(), "ibrun-0123456789abcdef")
	require.NoError(t, executable.Write(old, nil))
	long := time.Now().Add(-100 * 24 * time.Hour)
	require.NoError(t, os.Chtimes(old, long, long))
	require.Equal(t, shipped, n.launch(t))
	require.NoFileExists(t, old)

	digest := n.cached() + digestSuffix
	require.NoError(t, os.Chtimes(digest, long, long))
	require.NoError(t, executable.Write(old, nil))
	require.NoError(t, os.Chtimes(old, long, long))
	require.Equal(t, found, n.launch(t))
	st, err := os.Stat(digest)
	require.NoError(t, err)
	require.Less(t, time.Since(st.ModTime()), time.Minute)
	require.FileExists(t, old, "only what comes new makes room")
	require.Equal(t, found, n.launch(t))
}
