//go:build cluster

package spawn

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
	"ibrun/test/skip"
)

// What ranks of Open MPI leave behind is removed, and nothing else: another user
// of the node can put directories and links of the same names where they are
// looked for, leading to directories of the victim.
func TestTidyIsNotLedElsewhere(t *testing.T) {
	if os.Geteuid() != 0 {
		skip.Because(t, "only root can make files of another user")
	}
	const stranger = 65534
	tmp, home := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	host, err := os.Hostname()
	require.NoError(t, err)
	s := New(Config{Job: &job.Job{ID: "tidy", Size: 4, Programs: []job.Program{{Count: 4}}, Layout: job.NewLayout([]job.Share{{Nodes: 1, Ranks: 4}})}, Node: job.Node{Ranks: 4}})
	s.mpi.file = os.Stdin // the library was offered
	id := openJob("tidy")
	family, number := fmt.Sprintf("jf.%d", id>>16), fmt.Sprint(id&0xffff)

	keep := []string{}
	for _, dir := range []string{family + "/" + number + "/0/thesis", number + "/1/thesis", "2/thesis", "thesis"} {
		keep = append(keep, filepath.Join(home, dir))
		require.NoError(t, os.MkdirAll(filepath.Join(home, dir), 0o755))
	}
	evil := func(session string, links map[string]string) {
		for name, to := range links {
			at := filepath.Join(tmp, session, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
			require.NoError(t, os.Symlink(to, at))
		}
		require.NoError(t, filepath.WalkDir(filepath.Join(tmp, session), func(path string, _ os.DirEntry, _ error) error {
			return os.Lchown(path, stranger, stranger)
		}))
	}
	evil("ompi.a.0", map[string]string{family: filepath.Join(home, family)})
	evil("ompi.b.0", map[string]string{family + "/" + number: filepath.Join(home, number)})
	evil("ompi.c.0", map[string]string{family + "/" + number + "/2": home})
	require.NoError(t, os.Symlink(home, filepath.Join(tmp, "ompi.d.0")))

	segment := fmt.Sprintf("/dev/shm/vader_segment.%s.0.%x.", host, id)
	for local := range 2 {
		require.NoError(t, os.WriteFile(segment+fmt.Sprint(local), nil, 0o600))
	}
	t.Cleanup(func() { os.Remove(segment + "1") })
	require.NoError(t, os.Lchown(segment+"1", stranger, stranger))

	own := filepath.Join(tmp, "ompi."+host+".0")
	require.NoError(t, os.MkdirAll(filepath.Join(own, family, number, "3"), 0o700))
	require.NoError(t, os.Symlink(home, filepath.Join(own, family, number, "3/link")))
	s.tidy()
	for _, dir := range keep {
		require.DirExists(t, dir)
	}
	require.NoFileExists(t, segment+"0")
	require.FileExists(t, segment+"1", "a file of the other user")
	require.NoDirExists(t, filepath.Join(own, family))
	require.DirExists(t, own, "every job's")

	// The place of the user's own session is taken.
	require.NoError(t, os.Remove(own))
	evil("ompi."+host+".0", map[string]string{family: filepath.Join(home, family)})
	s.tidy()
	require.NoError(t, os.RemoveAll(own))
	require.NoError(t, os.Symlink(home, own)) // of the user's own uid, as left by a program
	s.tidy()
	for _, dir := range keep {
		require.DirExists(t, dir)
	}
}
