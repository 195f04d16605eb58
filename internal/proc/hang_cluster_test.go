//go:build cluster

package proc

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/test/skip"
	"ibrun/test/waitfor"
)

// stuck mounts a file system that does not answer; end lets all that wait for it go.
func stuck(t *testing.T) (dir string, server *Process, end func()) {
	if os.Geteuid() != 0 {
		skip.Because(t, "mounting a file system takes root")
	}
	goTool, err := exec.LookPath("go")
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "stuck")
	build, err := Start(Cmd{Path: goTool, Argv: []string{"go", "build", "-o", program, "ibrun/test/stuck"},
		Env: os.Environ(), Files: []*os.File{nil, os.Stdout, os.Stderr}})
	require.NoError(t, err)
	<-build.Done()
	require.Equal(t, 0, build.Status().ExitStatus())
	dir = t.TempDir()
	in, theirs, err := os.Pipe()
	require.NoError(t, err)
	word, out, err := os.Pipe()
	require.NoError(t, err)
	p, err := Start(Cmd{Path: program, Argv: []string{"stuck", dir}, Files: []*os.File{in, out, os.Stderr}})
	require.NoError(t, err)
	in.Close()
	out.Close()
	end = func() {
		theirs.Close()
		ended(t, p)
		word.Close() // it says more
	}
	t.Cleanup(func() {
		end()
		_ = unix.Unmount(dir, unix.MNT_DETACH) // it may not have come so far
	})
	_, err = word.Read(make([]byte, 10))
	require.NoError(t, err)
	return dir, p, end
}

// TestProgramHangs: a program on a file system that does not answer keeps nobody but
// its own process: neither the runtime, which has one processor here as in an
// agent, nor other starts, signals and ends.
func TestProgramHangs(t *testing.T) {
	dir, server, end := stuck(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, c := range []struct {
		cmd Cmd
		op  string
	}{
		{Cmd{Path: dir + "/program"}, "exec"},
		{Cmd{Path: "/bin/true", Dir: dir + "/house"}, "chdir"},
	} {
		c.cmd.Argv, c.cmd.Most = []string{"x"}, time.Second
		failed := make(chan error, 1)
		go func() {
			_, err := Start(c.cmd)
			failed <- err
		}()
		for len(failed) == 0 {
			p, err := Start(Cmd{Path: "/bin/sleep", Argv: []string{"sleep", "1000"}, Most: waitfor.Deadline})
			require.NoError(t, err)
			p.Signal(syscall.SIGTERM)
			require.Equal(t, syscall.SIGTERM, ended(t, p).Signal())
		}
		err := <-failed
		var p *fs.PathError
		require.ErrorAs(t, err, &p)
		require.Equal(t, c.op, p.Op)
		require.Equal(t, Hung(time.Second), p.Err)
	}
	require.Len(t, KillDescendants(100*time.Millisecond, server.Pid()), 2)
	end()
	waitfor.Require(t, "both have ended", func() bool { return len(Descendants(os.Getpid())) == 0 })
}
