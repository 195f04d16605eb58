package spawn

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/exit"
)

// A program is found as a shell finds it: below the rank's directory if its name
// has a slash, else in the rank's PATH; 127 is "there is none", 126 "not to be run".
func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"bin/app": 0o755, "bin2/app": 0o755, "plain/app": 0o644,
		"bin/sub/x": 0o755} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, mode))
	}
	for _, c := range []struct {
		name, path string
		want       string
		code       int
		cause      string
	}{
		{"bin/app", "", "bin/app", 0, ""},
		{dir + "/bin/app", "", "bin/app", 0, ""},
		{"./missing", "", "missing", 127, "no such file"},
		{"bin/app/x", "", "bin/app/x", 127, "no such file"},
		{"bin/sub", "", "bin/sub", 126, "is a directory"},
		{"plain/app", "", "plain/app", 126, "chmod +x"},
		{"app", dir + "/none:" + dir + "/bin2:" + dir + "/bin", "bin2/app", 0, ""},
		{"app", "bin", "bin/app", 0, ""},
		{"app", dir + "/plain:" + dir + "/bin", "bin/app", 0, ""},
		{"app", dir + "/plain:" + dir + "/none", "", 126, "chmod +x"},
		{"", "bin", "", 127, "the program's name is empty"},
		{"app", dir + "/none", "", 127, "not found in PATH (" + dir + "/none)"},
	} {
		path, err := FindProgram(c.name, dir, []string{"PATH=/not/this", "PATH=" + c.path})
		if c.want != "" {
			require.Equal(t, filepath.Join(dir, c.want), path)
		}
		if c.cause == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.cause)
			require.Equal(t, c.code, exit.Code(err), c.name)
		}
	}
	path, err := FindProgram("sh", dir, nil)
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(path), "without a PATH, the usual places")
}
