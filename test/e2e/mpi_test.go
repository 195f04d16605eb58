package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/product"
)

// pmiClient builds the PMI client that needs no MPI library.
func pmiClient(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pmi")
	require.NoError(t, product.Program(path, "ibrun/test/pmi"))
	return path
}

// A PMI client over all kinds of trees: each value is what its rank has put.
func TestPMIOverTheTree(t *testing.T) {
	client := pmiClient(t)
	for _, s := range stages(t) {
		o := ibrun(t, s.run(client, "-all", "-bytes", "900")...)
		require.Equal(t, 0, o.code, "%s: %s", s.name, o.stderr)
		require.Regexp(t, `^\d+ ranks exchanged\n$`, string(o.stdout))
	}
}

// What is no PMI is named and hurts nobody else.
func TestPMINonsense(t *testing.T) {
	client := pmiClient(t)
	for _, words := range []string{"cmd=nonsense", "hello", "cmd=put key=a b=c value=d",
		"cmd=init pmi_version=1 pmi_subversion=1\ncmd=barrier_on"} {
		o := ibrun(t, "--keep-going", "-n", "1", "sh", "-c", `printf '%s\n' "$0" >&3; sleep 0.1`, words)
		require.Equal(t, 0, o.code, "%q: %s", words, o.stderr)
		require.Equal(t, 1, strings.Count(o.stderr, "\n"), "%q: %s", words, o.stderr)
		require.Contains(t, o.stderr, "rank 0: pmi-1: ")
	}
	o := ibrun(t, "-n", "3", client)
	require.Equal(t, "3 ranks exchanged\n", string(o.stdout), o.stderr)
}

// Shared memory that ranks have told each other of and left behind is removed.
func TestSharedMemoryIsRemoved(t *testing.T) {
	f, err := os.CreateTemp("/dev/shm", "ibrun-test-")
	require.NoError(t, err)
	f.Close()
	t.Cleanup(func() { os.Remove(f.Name()) })
	o := ibrun(t, "-n", "1", "sh", "-c",
		`printf 'cmd=init pmi_version=1 pmi_subversion=1\ncmd=put kvsname=kvs_%s key=k value=%s\n' "$IBRUN_JOB_ID" `+
			`"$0" >&3; sleep 0.2; kill -9 $$`,
		fmt.Sprintf("%X", f.Name()))
	require.Equal(t, 137, o.code, o.stderr)
	require.NoFileExists(t, f.Name())
}
