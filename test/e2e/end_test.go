package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/executable"
	"ibrun/test/screen"
)

func TestExitCodes(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, []byte("x"), 0o600))
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"true"}, 0, ""},
		{[]string{"sh", "-c", "exit 1"}, 1, "rank 0 on "},
		{[]string{"sh", "-c", "exit 7"}, 7, "exited with code 7"},
		{[]string{"sh", "-c", "exit 255"}, 255, "exited with code 255"},
		{[]string{"sh", "-c", "kill -SEGV $$"}, 139, "signal 11 (SEGV)"},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137, "signal 9 (KILL)"},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, "signal 15 (TERM)"},
		{[]string{"no-such-program"}, 127, "not found in PATH"},
		{[]string{"--no-preflight", "no-such-program"}, 127, "could not be started"},
		{[]string{plain}, 126, "not executable"},
		{[]string{"--no-preflight", plain}, 126, "not executable"},
		{[]string{"/"}, 126, "is a directory"},
		{[]string{"--timeout", "0.5", "sleep", "100"}, 124, "--timeout"},
		{[]string{"--no-such-option", "true"}, 2, "unknown option"},
		{[]string{"-n", "8", "--launcher", "local", "--hosts", "a,b,c", "sh", "-c",
			"[ $RANK != 5 ] && exec sleep 100; exit 7"}, 7, "rank 5 on b exited with code 7"},
		{[]string{"-n", "3", "--keep-going", "sh", "-c", "[ $RANK = 2 ] && sleep 0.5; exit $RANK"}, 1, "rank 1 on"},
		{[]string{"-n", "1", "true", ":", "-n", "1", "sh", "-c", "exit 9"}, 9, "rank 1 on"},
	} {
		o := ibrun(t, c.args...)
		require.Equal(t, c.code, o.code, "%q: %s", c.args, o.stderr)
		require.Contains(t, o.stderr, c.says, "%q", c.args)
		require.Less(t, o.took, 5*time.Second, "%q", c.args)
		if c.code == 0 {
			require.Empty(t, o.stderr)
		}
	}
}

func TestSignals(t *testing.T) {
	for _, c := range []struct {
		name    string
		signals []syscall.Signal
		code    int
		most    time.Duration
	}{
		{"Ctrl-C", []syscall.Signal{syscall.SIGINT}, 130, 4 * time.Second},
		{"Ctrl-C twice", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, 130, 1500 * time.Millisecond},
		{"TERM", []syscall.Signal{syscall.SIGTERM}, 143, 4 * time.Second},
		{"HUP", []syscall.Signal{syscall.SIGHUP}, 129, 4 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			mark := mark(t)
			// A rank that ignores what it is sent is killed.
			cmd := command(t, "-n", "4", "--launcher", "local", "--hosts", "a,b", "sh", "-c",
				"trap '' INT TERM HUP; echo up; while :; do sleep 1; done")
			cmd.Env = append(os.Environ(), mark)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			buf := make([]byte, 64)
			for got := 0; got < len("up\n")*4; {
				n, err := out.Read(buf)
				require.NoError(t, err)
				got += n
			}
			began := time.Now()
			for i, s := range c.signals {
				if i > 0 {
					<-time.After(100 * time.Millisecond) // the kernel makes one of two that come at once
				}
				require.NoError(t, cmd.Process.Signal(s))
			}
			_ = cmd.Wait()
			require.Equal(t, c.code, cmd.ProcessState.ExitCode())
			require.Less(t, time.Since(began), c.most)
			eventually(t, time.Second, "nothing is left", func() bool { return len(marked(mark)) == 0 })
		})
	}
}

// Whatever of a job is killed, nothing of it survives.
func TestNothingSurvives(t *testing.T) {
	for _, role := range []string{"root", ":agent", ":reaper", "both"} {
		for which := range 3 {
			if role == "root" && which > 0 {
				continue
			}
			t.Run(role+strconv.Itoa(which), func(t *testing.T) {
				mark := mark(t)
				cmd := command(t, "-n", "6", "--launcher", "local", "--hosts", "a,b,c", "--tree", "chain",
					"sh", "-c",
					"(setsid sh -c 'sleep 1000 & exec sleep 1000' </dev/null >/dev/null 2>&1 &); sleep 1000 & kill "+
						"-STOP $!; exec sleep 1000")
				cmd.Env = append(os.Environ(), mark)
				var stderr screen.Screen
				cmd.Stderr = &stderr
				require.NoError(t, cmd.Start())
				// Root; three reapers and agents; per rank a sleep, a stopped one and two strays.
				eventually(t, 2*time.Minute, "all is up", func() bool { return len(marked(mark)) >= 1+6+24 })
				var victims []int
				switch role {
				case "root":
					victims = []int{cmd.Process.Pid}
				case "both": // in the same instant: nobody on the node is left to clean up
					agent := agents(":agent")[which]
					victims = []int{parent(t, agent), agent}
				default:
					victims = []int{agents(role)[which]}
				}
				for i, victim := range victims {
					err := syscall.Kill(victim, syscall.SIGKILL)
					if i == 0 || err != syscall.ESRCH { // an agent may end at once without its reaper
						require.NoError(t, err)
					}
				}
				began := time.Now()
				_ = cmd.Wait()
				eventually(t, 5*time.Second-time.Since(began), "nothing is left",
					func() bool { return len(marked(mark)) == 0 })
				if role != "root" {
					require.Equal(t, 125, cmd.ProcessState.ExitCode())
					require.Contains(t, stderr.String(), "was lost")
				}
			})
		}
	}
}

// parent is the process above another one.
func parent(t *testing.T, pid int) (above int) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "PPid:")
	_, err = fmt.Sscan(rest, &above)
	require.NoError(t, err)
	return above
}

// What ranks leave behind does not outlive a job that succeeds either, nor
// does it hold the job up for more than two seconds.
func TestStrays(t *testing.T) {
	threads := filepath.Join(t.TempDir(), "threads")
	out, err := exec.Command("gcc", "-pthread", "-o", threads, "testdata/threads.c").CombinedOutput()
	require.NoError(t, err, "packages gcc and libc6-dev are needed: %s", out)
	const silent = " </dev/null >/dev/null 2>&1 & "
	const chains = "r() { [ $1 = 0 ] && exec sleep 1000; r $(($1-1)) & }; for i in 1 2 3 4; do r 2000; done"
	mark := mark(t) // of ranks alone: agents end after their last word
	for _, c := range []struct {
		name, script string
		args         []string
	}{
		{"holds the output", "setsid sleep 1000 & echo done", nil},
		{"forked twice", "(setsid sleep 1000 &)" + silent + "echo done", nil},
		{"empty environment", "env -i setsid sh -c 'sleep 1000; :' " + mark + silent + "echo done", nil},
		{"forks on", chains + silent + "echo done", nil},
		{"forks on beside an agent", chains + silent + "echo done",
			[]string{"--launcher", "local", "--hosts", "a,b", "--tree", "chain"}},
		{"first thread ended", `setsid "$0"` + silent +
			"until grep -q 'State:.Z' /proc/$!/status; do :; done; echo done", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var o outcome
			for try := 0; try == 0 || try < 3 && o.took > strayPatience; try++ { // the machine may be busy
				o = ibrun(t, append(c.args, "-x", mark, "-n", "2", "sh", "-c", c.script, threads)...)
				require.Empty(t, left(mark))
				require.Equal(t, 0, o.code, o.stderr)
				require.Equal(t, "done\ndone\n", string(o.stdout))
				require.Empty(t, o.stderr)
			}
			require.Less(t, o.took, strayPatience)
		})
	}
}

// strayPatience bounds a job of TestStrays at its best.
const strayPatience = 5 * time.Second

// Ranks of nodes that are up do not wait for those that cannot be: what ran is said.
func TestWhatRan(t *testing.T) {
	launcher := filepath.Join(t.TempDir(), "launcher")
	up := filepath.Join(t.TempDir(), "up")
	require.NoError(t, executable.Write(launcher,
		[]byte("#!/bin/sh\nhost=$1\nshift\n[ $host = bad ] || exec sh -c \"$*\"\n"+
			"until [ -e "+up+"0 ] && [ -e "+up+"1 ]; do sleep 0.01; done\necho no such host >&2\nexit 255\n")))
	run := func(hosts string) outcome {
		return ibrun(t, "-ppn", "2", "--launcher-exec", launcher, "--hosts", hosts, "--tree", "flat", "sh", "-c",
			"echo here; : >"+up+"$RANK; exec sleep 100")
	}
	o := run("good,bad")
	require.Equal(t, 125, o.code, o.stderr)
	require.Equal(t, "here\nhere\n", string(o.stdout))
	require.Contains(t, o.stderr,
		"the job was ended, of which 2 of 4 ranks had been started: 1 node could not be reached")
	o = run("bad")
	require.Equal(t, 125, o.code, o.stderr)
	require.Contains(t, o.stderr, "the job was not started: 1 node could not be reached")
}

// A job that goes on after a failure ends when its time is up; the first failure stays the cause.
func TestTimeoutAfterFailure(t *testing.T) {
	o := ibrun(t, "--keep-going", "--timeout", "1", "-n", "2", "sh", "-c", "[ $RANK = 1 ] && exit 3; exec sleep 1000")
	require.Equal(t, 3, o.code)
	require.Regexp(t,
		`^ibrun: rank 1 on \S+ exited with code 3\nibrun: the job was ended: its time of 1s \(--timeout\) was up\n$`,
		o.stderr)
	require.Less(t, o.took, patience/2)
}
