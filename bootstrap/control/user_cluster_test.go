//go:build cluster

package control

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/executable"
	"ibrun/test/skip"
)

// TestMain is a caller of its own, too: as another user.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == ":call" {
		c, err := net.Dial("unix", os.Args[2])
		if err != nil {
			os.Stdout.WriteString(err.Error())
			os.Exit(0)
		}
		_, _ = c.Write([]byte(`{"verb":"job"}` + "\n"))
		line, _ := bufio.NewReader(c).ReadString('\n')
		os.Stdout.WriteString(line)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Another user is refused by the folder; who comes to the socket all the same is refused by it.
// Root may ask.
func TestAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		skip.Because(t, "only root can be another user")
	}
	path, _ := served(t)
	call := func() string {
		self, err := os.Executable()
		require.NoError(t, err)
		text, err := os.ReadFile(self)
		require.NoError(t, err)
		other := filepath.Join(open(t), "caller")
		require.NoError(t, executable.Write(other, text))
		c := exec.Command(other, ":call", path)
		c.Dir = "/"
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := c.Output()
		require.NoError(t, err)
		return string(out)
	}
	require.Contains(t, call(), "permission denied")
	for dir := filepath.Dir(path); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	require.NoError(t, os.Chmod(path, 0o777))
	require.Contains(t, call(), "another user's")
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o700))
}

// open is a folder that others can enter.
func open(t *testing.T) string {
	dir, err := os.MkdirTemp("/tmp", "ibrun-control-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}
