//go:build cluster

package jobcontrol

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/executable"
)

func TestStoppedForLong(t *testing.T) {
	t.Parallel()
	stopForLong(t, 3)
}

// A stopped job that is killed leaves nothing, however it is killed.
func TestKilledWhileStopped(t *testing.T) {
	t.Parallel()
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
			term.awaitStop(8)
			k.kill(term, root(term))
			term.await("nothing but the shell is left", func() bool { return term.others() == 0 })
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
	term.awaitStop(1)
	<-time.After(wait + time.Second)
	term.line("bg")
	// A shell that comes to its traps late takes them in the order of their numbers.
	term.await("both traps have run", func() bool {
		text := term.text()[term.passed:]
		return strings.Contains(text, "tstp\r\n") && strings.Contains(text, "cont\r\n")
	})
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
	term.await("the session has begun", func() bool { _, err := os.Stat(begun); return err == nil })
	term.keys(ctrlZ)
	term.expect("^Z") // the signal was sent before
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	term.expect("Stopped")
	term.awaitStop(2)
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
