//go:build cluster || soak

package jobcontrol

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/executable"
	"ibrun/test/vcluster/cluster"
)

// long is more than the 70 s after which the reaper of a stopped agent kills it.
const long = 75 * time.Second

// local are two agents of this machine, one below the other.
const local = "--launcher local --hosts a,b --tree chain"

// here runs commands on this machine.
func here(args ...string) *exec.Cmd { return exec.Command(args[0], args[1:]...) }

// waiting is a rank, and a process of it in a session of its own, that run until
// there is a file.
func waiting(file string) string {
	const loop = `while [ ! -e %s ]; do sleep 0.2; done`
	return fmt.Sprintf(`sh -c '(setsid sh -c "`+loop+`" &); echo up; `+loop+`; echo done'`, file, file)
}

// stopForLong stops jobs over ssh and on this machine for longer than any patience of ibrun's. Each goes on
// with all its ranks.
func stopForLong(t *testing.T, jobs int) {
	c := cluster.Require(t, cluster.Config{Nodes: 4, Share: []string{filepath.Dir(program)}})
	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	ranks := filepath.Join(c.Shared(), "ranks")
	require.NoError(t, executable.Write(ranks, self))
	front := func(args ...string) *exec.Cmd { return c.Command(context.Background(), args...) }
	t.Run("jobs", func(t *testing.T) {
		for i := range jobs {
			name, how, enter := "local", local, here
			if i%2 == 0 {
				name, how, enter = "ssh", "--hosts node[0001-0004] --tree chain", front
			}
			if i%4 == 2 {
				name, how = "exec", how+" --ssh exec"
			}
			t.Run(fmt.Sprintf("%s%d", name, i), func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(c.Shared(), fmt.Sprint("go", i))
				what, up, done := waiting(file), "up\r\n", "done\r\n"
				if i%5 == 0 {
					what, up, done = ranks+" :ring "+file, "turns\r\n", "is done\r\n"
				}
				term := openTerminal(t, enter)
				term.line("%s -n 4 %s %s; echo code=$?", program, how, what)
				for range 4 {
					term.expect(up)
				}
				term.keys(ctrlZ)
				term.expect("Stopped")
				term.awaitStop(4)
				shown := term.text()
				<-time.After(long) // the fault's length, not a wait for something
				require.NoError(t, os.WriteFile(file, nil, 0o644))
				require.Equal(t, shown, term.text(), "nobody says anything")
				term.line("fg; echo code=$?")
				for range 4 {
					term.expect(done)
				}
				term.expect("code=0")
				require.NotRegexp(t, `ibrun: [^lw]`, term.text(), "but of the launch, and what it waits for")
			})
		}
	})
}
