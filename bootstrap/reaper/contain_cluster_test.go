//go:build cluster

package reaper_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/test/skip"
	"ibrun/test/waitfor"
)

// nobody is a user without privilege.
const nobody = 65534

// contained runs a test with a reaper in namespaces that root made, and in those of a user.
func contained(t *testing.T, test func(t *testing.T, start func(args ...string) *reaped)) {
	if os.Geteuid() != 0 {
		skip.Because(t, "needs root: namespaces of another user")
	}
	for begin, path := range programs {
		for _, user := range []int{os.Geteuid(), nobody} {
			t.Run(begin+" by "+strconv.Itoa(user), func(t *testing.T) {
				test(t, func(args ...string) *reaped {
					g := &reaped{cmd: exec.Command(path, append([]string{reaper.Contain}, args...)...)}
					g.cmd.Env, g.cmd.Stderr = []string{"GREETING=hello", "PATH=" + os.Getenv("PATH")}, &g.errs
					if user != os.Geteuid() {
						require.NoError(t, os.Chmod(filepath.Dir(path), 0o755))
						g.cmd.Dir = "/"
						them := &syscall.Credential{Uid: nobody, Gid: nobody}
						g.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: them}
					}
					return g.started(t)
				})
			})
		}
	}
}

// below are the processes below another one, oldest first, as this namespace numbers them.
func below(pid int) (found []int) {
	for _, task := range glob("/proc/" + strconv.Itoa(pid) + "/task/*/children") {
		text, _ := os.ReadFile(task)
		for _, word := range strings.Fields(string(text)) {
			child, _ := strconv.Atoi(word)
			found = append(append(found, child), below(child)...)
		}
	}
	slices.Sort(found)
	return found
}

func glob(pattern string) []string {
	names, _ := filepath.Glob(pattern)
	return names
}

// Reaper and agent, killed in the same instant, take with them what has forked away; so does the
// death of the process that waits outside, and that of the agent alone.
func TestContained(t *testing.T) {
	for _, c := range []struct {
		name    string
		victims func(waiter int, inside []int) []int
	}{
		{"reaper and agent", func(_ int, inside []int) []int { return inside[:2] }},
		{"reaper", func(_ int, inside []int) []int { return inside[:1] }},
		{"agent", func(_ int, inside []int) []int { return inside[1:2] }},
		{"waiter", func(waiter int, _ []int) []int { return []int{waiter} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			contained(t, func(t *testing.T, start func(...string) *reaped) {
				g := start("leave", "9")
				stray, err := strconv.Atoi(g.line(t))
				require.NoError(t, err)
				require.Less(t, stray, 100, "it is numbered in a namespace of its own")
				words := strings.Fields(g.line(t))
				require.Equal(t, "1", words[0], "the reaper is process 1")
				require.Equal(t, words[1], words[2], "the agent leads a session")
				inside := below(g.cmd.Process.Pid)
				require.Len(t, inside, 3, "reaper, agent, and what has forked away")
				for _, pid := range c.victims(g.cmd.Process.Pid, inside) {
					_ = syscall.Kill(pid, syscall.SIGKILL) // the kernel may have been faster
				}
				waitfor.Require(t, "all have ended", func() bool {
					return gone(inside[0]) && gone(inside[1]) && gone(inside[2])
				})
				_ = g.cmd.Wait()
			})
		})
	}
}

// A node that cannot make a namespace says so, with a command to try.
func TestContainRefused(t *testing.T) {
	refuse := "echo 0 >/proc/sys/user/max_pid_namespaces; exec " + programs["go"] + " " + reaper.Contain + " exit 0"
	out, err := exec.Command("unshare", "--user", "--map-root-user", "sh", "-c", refuse).CombinedOutput()
	var failed *exec.ExitError
	require.ErrorAs(t, err, &failed, "%s", out)
	require.Equal(t, 125, failed.ExitCode())
	require.Contains(t, string(out), "--contain: this node gives the user no PID namespace: ")
	require.Contains(t, string(out), "hint: unshare ")
}

// The agent's exit code comes through, and its end is seen at once.
func TestContainedExitCode(t *testing.T) {
	contained(t, func(t *testing.T, start func(...string) *reaped) {
		for _, code := range []int{0, 7, 255} {
			g := start("exit", strconv.Itoa(code))
			g.line(t)
			require.Equal(t, code, g.end(t))
		}
		g := start("die", strconv.Itoa(int(syscall.SIGTERM)))
		g.line(t)
		require.Equal(t, 128+int(syscall.SIGTERM), g.end(t))
	})
}

// A process of a user without privilege has none inside either.
func TestContainedIsNotRoot(t *testing.T) {
	contained(t, func(t *testing.T, start func(...string) *reaped) {
		g := start("exit", "0")
		g.line(t)
		agent := below(g.cmd.Process.Pid)[1]
		if strings.HasSuffix(t.Name(), strconv.Itoa(nobody)) {
			require.Equal(t, strings.Repeat("0", 16), status(t, agent, "CapEff"))
			require.Equal(t, strings.Repeat("0", 16), status(t, agent, "CapAmb"))
			require.Equal(t, strconv.Itoa(nobody), strings.Fields(status(t, agent, "Uid"))[0])
		}
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		require.NoError(t, err)
		require.Equal(t, 1, bytes.Count(mounts, []byte(" /proc rw")), "its /proc is not mounted out here")
		require.Equal(t, 0, g.end(t))
	})
}

// A signal to the process that waits outside reaches the agent.
func TestContainedPassesSignals(t *testing.T) {
	contained(t, func(t *testing.T, start func(...string) *reaped) {
		g := start("take", "3")
		g.line(t)
		for _, s := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGTERM} {
			require.NoError(t, g.cmd.Process.Signal(s))
			require.Equal(t, "got "+strconv.Itoa(int(s)), g.line(t))
		}
		require.Equal(t, 3, g.end(t))
	})
}
