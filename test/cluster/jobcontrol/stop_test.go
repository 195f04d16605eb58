//go:build cluster

package jobcontrol

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/executable"
	"ibrun/test/vcluster/cluster"
)

// long is more than the 60 s after which an agent that says nothing is given up.
const long = 90 * time.Second

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

// A job that is stopped for longer than any patience of ibrun's goes on, with all its ranks: 20
// times.
func TestStoppedForLong(t *testing.T) {
	t.Parallel()
	c := cluster.Require(t, cluster.Config{Nodes: 4})
	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	ranks := filepath.Join(c.Shared(), "ranks")
	require.NoError(t, executable.Write(ranks, self))
	front := func(args ...string) *exec.Cmd { return c.Command(context.Background(), args...) }
	t.Run("jobs", func(t *testing.T) {
		for i := range 20 {
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
				require.True(t, within(patience, func() bool {
					all, stopped := term.ranks()
					return all >= 4 &&
						stopped == all
				}), "all ranks are stopped: %v", term.processes())
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

// A stopped job that is killed leaves nothing, however it is killed.
func TestKilledWhileStopped(t *testing.T) {
	for _, k := range []struct {
		name string
		kill func(c *terminal, root int)
	}{
		{"KILL", func(c *terminal, root int) { require.NoError(t, syscall.Kill(root, syscall.SIGKILL)) }},
		{"kill %1", func(c *terminal, root int) { c.line("kill %%1") }},
		{"Ctrl-C in front", func(c *terminal, root int) { c.line("fg"); c.expect("--tree"); c.keys("\x03") }},
		{"exit", func(c *terminal, root int) { c.line("exit"); c.expect("stopped jobs"); c.line("exit") }},
		{"hang-up", func(c *terminal, root int) { require.NoError(t, c.master.Close()) }},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t, here)
			term.line("%s -n 4 %s %s", program, local, waiting("/nowhere"))
			for range 4 {
				term.expect("up\r\n")
			}
			term.keys(ctrlZ)
			term.expect("Stopped")
			term.expect("ready> ")
			require.True(t, within(patience, func() bool {
				all, stopped := term.ranks()
				return all >= 8 &&
					stopped == all
			}))
			k.kill(term, root(term))
			left := func() (lines []string) {
				for _, p := range term.processes() {
					if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline",
						p.pid)); p.pid != term.shell.Process.Pid && p.state != "Z" {
						lines = append(lines, fmt.Sprintf("%d %s %q", p.pid, p.state, line))
					}
				}
				return lines
			}
			require.True(t, within(10*time.Second, func() bool { return len(left()) == 0 }), "left: %q\n%s", left(),
				term.text())
		})
	}
}

// root is the process that the shell has started.
func root(c *terminal) int {
	for _, p := range c.processes() {
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.pid))
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if exe == program && !strings.Contains(string(line), "\x00:") {
			return p.pid
		}
	}
	require.FailNow(c.t, "no ibrun")
	return 0
}

// Programs may catch a stop and its end. With bg the job runs on, though ibrun reads
// the terminal for rank 0. The time in which a job was stopped is none of --wait.
func TestBackground(t *testing.T) {
	t.Parallel()
	const wait = 5 * time.Second
	term := openTerminal(t, here)
	file := filepath.Join(t.TempDir(), "go")
	term.line(`%s -n 2 %s --wait %d sh -c 'trap "echo tstp" TSTP; trap "echo cont" CONT; echo up; [ $RANK = 1 ] && `+
		`exit; while [ ! -e %s ]; do sleep 0.1; done; echo done'`,
		program, local, wait/time.Second, file)
	term.expect("up\r\n")
	term.expect("up\r\n")
	term.keys(ctrlZ)
	term.expect("Stopped")
	term.expect("ready> ")
	require.True(t, within(patience, func() bool { all, stopped := term.ranks(); return all > 0 && stopped == all }))
	<-time.After(wait + time.Second)
	term.line("bg")
	// A shell that comes to its traps late takes them in the order of their numbers.
	require.True(t, within(patience, func() bool {
		text := term.text()[term.passed:]
		return strings.Contains(text, "tstp\r\n") && strings.Contains(text, "cont\r\n")
	}), term.text())
	term.line("echo ours")
	term.expect("ours\r\n")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	term.expect("done\r\n")
	term.line("wait %%1; echo code=$?")
	term.expect("code=0")
}

// Ctrl-Z while the job is being launched takes effect when it is.
func TestStoppedAtOnce(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, here)
	dir := t.TempDir()
	slow, begun, file := filepath.Join(dir, "slow"), filepath.Join(dir, "begun"), filepath.Join(dir, "go")
	require.NoError(t, executable.Write(slow, fmt.Appendf(nil,
		"#!/bin/sh\n: >%s\nwhile [ ! -e %s ]; do sleep 0.1; done\nshift\nexec sh -c \"$*\"\n", begun, file)))
	term.line("%s -n 2 --launcher-exec %s --hosts a,b sh -c 'sleep 3; echo up'", program, slow)
	require.True(t, within(patience, func() bool { _, err := os.Stat(begun); return err == nil }), "%s", term.text())
	term.keys(ctrlZ)
	term.expect("^Z") // the signal was sent before
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	term.expect("Stopped")
	require.True(t, within(patience, func() bool { all, stopped := term.ranks(); return all >= 2 && stopped == all }))
	term.line("fg; echo code=$?")
	term.expect("up\r\n")
	term.expect("up\r\n")
	term.expect("code=0")
}

// Where no shell could continue it, a job does not stop: as the kernel has it for
// all programs.
func TestNobodyToContinue(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, here)
	file := filepath.Join(t.TempDir(), "go")
	term.line("setsid -w %s -n 2 %s", program, waiting(file))
	term.expect("up\r\n")
	term.expect("up\r\n")
	require.NoError(t, syscall.Kill(root(term), syscall.SIGTSTP))
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	term.expect("done\r\n")
	term.expect("done\r\n")
}
