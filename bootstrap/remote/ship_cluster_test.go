//go:build cluster

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/internal/build"
	"ibrun/internal/job"
	"ibrun/test/executable"
	"ibrun/test/waitfor"
)

// The limit of a launch holds while the binary is sent: it is time without
// progress there.
func TestLimitWhileShipping(t *testing.T) {
	const limit = time.Second
	for _, c := range []struct {
		name, script, says string
	}{
		{"silent at first", "exec sleep 1000", "no answer from it in 1s"},
		{"silent when told how", need + "exec sleep 1000", "no answer from it in 1s"},
		{"takes nothing", need + send + "exec sleep 1000", "it took no more of the binary in 1s"},
		{"stops taking", need + send + "head -c 3000000 >/dev/null; exec sleep 1000",
			"it took no more of the binary in 1s"},
		{"slow in both stages", "sleep 0.6; " + need + "sleep 0.6; " + send + "cat >/dev/null",
			"no answer from it in 1s"},
		{"takes all and says nothing", need + send + "cat >/dev/null", "no answer from it in 1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := fake(t, c.script, limit).Start(context.Background(), Target{Host: "h"}, func(Phase) {})
			var e *Error
			require.ErrorAs(t, err, &e)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "--launch-timeout")
			if c.name != "slow in both stages" {
				require.Equal(t, strings.Contains(c.script, "read"), e.Phase == Ship)
			}
		})
	}
}

// A node that takes the binary slowly, but does take it, has more than the limit.
func TestSlowShipping(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	size, _, err := build.Sum()
	require.NoError(t, err)
	script := need + send + fmt.Sprintf("for i in 1 2 3 4 5 6 7 8; do head -c %d >/dev/null; sleep 0.4; done; "+
		"head -c %d >/dev/null; echo '%s%s m 1::'; cat", size/8, size%8, agentMark, build.ID())
	began := time.Now()
	s, err := fake(t, script, limit).Start(context.Background(), Target{Host: "h"}, func(Phase) {})
	require.NoError(t, err)
	require.Greater(t, time.Since(began), limit)
	s.Kill()
	<-s.Done()
}

// A launch that is given up while the binary is sent leaves no part of it there,
// at whatever point that is, and no shell.
func TestShippingIsGivenUp(t *testing.T) {
	for name, stop := range map[string]struct{ program, called string }{
		"before it is told how": {"uname", "*"},
		"while it looks":        {"mktemp", "*"},
		"before it asks":        {"head", "-c*zero"},
		"while it is sent":      {"head", "-c*[0-9]"},
		"at the end":            {"sha256sum", "*"},
	} {
		for _, shell := range shells {
			t.Run(name+", "+filepath.Base(shell), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				at := func(name string) string { return filepath.Join(dir, name) }
				// A program that waits until it may go on, for 20 s at most.
				program := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in %s) : >%s; "+
					"for i in $(seq 2000); do test -e %s && break; sleep 0.01; done;; esac\nexec /usr/bin/%s \"$@\"\n",
					stop.called, at("reached"), at("go"), stop.program)
				require.NoError(t, os.Mkdir(at("bin"), 0o755))
				require.NoError(t, executable.Write(filepath.Join(at("bin"), stop.program), []byte(program)))
				n := newNode(t, shell, fmt.Sprintf("PATH=%s:$PATH", at("bin")), waitfor.Deadline)
				script := strings.Replace(command(job.LaunchOptions{}, "", reaper.Role), "-c '",
					"-c 'echo $$ >"+at("shell")+"; ", 1)
				n.starter.script = func() string { return script }
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan error, 1)
				go func() {
					_, err := n.starter.Start(ctx, Target{Host: "h"}, func(Phase) {})
					ended <- err
				}()
				reached := func() bool { _, err := os.Stat(at("reached")); return err == nil }
				waitfor.Require(t, "it is called", reached)
				cancel()
				require.Error(t, <-ended)
				require.NoError(t, os.WriteFile(at("go"), nil, 0o600))
				pid, err := strconv.Atoi(strings.TrimSpace(string(content(t, at("shell")))))
				require.NoError(t, err)
				gone := func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
				waitfor.Require(t, "its shell ends", gone)
				require.Empty(t, left(t, n.cache()))
				require.Empty(t, left(t, n.tmp))
			})
		}
	}
}

// TestParentIsCutOff stops sending in the middle of the binary and leaves the session open, as a cut
// network does. The shell on the node must end by itself.
func TestParentIsCutOff(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	text, err := installer(0, reaper.Role)
	require.NoError(t, err)
	text = strings.Replace(text, " 61}", " 1}", 1)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", command(job.LaunchOptions{}, "", reaper.Role))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	in, err := cmd.StdinPipe() // stays open
	require.NoError(t, err)
	var out bytes.Buffer
	cmd.Stdout = &out
	require.NoError(t, cmd.Start())
	_, err = io.WriteString(in, text)
	require.NoError(t, err)
	_ = cmd.Wait()
	require.Contains(t, out.String(), sendMark)
	require.Contains(t, out.String(), "arrived damaged or in part")
	require.Empty(t, left(t, filepath.Join(home, ".cache/ibrun")))
}
