package verbs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/executable"
)

// A device file that this user may not open is a matter of permission, whatever the library says;
// one that is not there is not. Root may open all, so the test runs as another user.
func TestNoPermission(t *testing.T) {
	const variable = "VERBS_TEST_FILES"
	if dir := os.Getenv(variable); dir != "" {
		files, class := filepath.Join(dir, "dev"), filepath.Join(dir, "class")
		for device, want := range map[string]syscall.Errno{"mlx5_0": syscall.EACCES, "mlx5_1": syscall.ENOENT,
			"mlx5_2": syscall.ENOENT, "mlx5_9": syscall.ENOENT} {
			require.Equal(t, want, openErrno(syscall.ENOENT, device, files, class), device)
		}
		require.Equal(t, syscall.ENODEV, openErrno(syscall.ENODEV, "mlx5_0", files, class),
			"other errors are as they are")
		return
	}
	dir, err := os.MkdirTemp("", "verbs")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755))
	put := func(name, text string, mode os.FileMode) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		require.NoError(t, os.Chmod(path, mode))
	}
	for i, device := range []string{"mlx5_0", "mlx5_1", "mlx5_2"} {
		put(filepath.Join("class", "uverbs"+string(rune('0'+i)), "ibdev"), device+"\n", 0o644)
	}
	put("dev/uverbs0", "", 0o600)
	put("dev/uverbs1", "", 0o666)
	binary := filepath.Join(dir, "test")
	text, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, executable.Write(binary, text))
	run := exec.Command(binary, "-test.run", "^TestNoPermission$", "-test.v")
	run.Dir, run.Env = dir, append(os.Environ(), variable+"="+dir)
	if os.Getuid() == 0 {
		run.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	} else {
		require.NoError(t, os.Chmod(filepath.Join(dir, "dev/uverbs0"), 0))
	}
	out, err := run.CombinedOutput()
	require.NoError(t, err, string(out))
	require.True(t, strings.Contains(string(out), "--- PASS: TestNoPermission"), string(out))
}
