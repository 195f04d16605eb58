package proc

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// listens is set in the program that TestSignals sends signals to.
const listens = "IBRUN_TEST_LISTENS"

// TestSignals checks that Signals receives signals, whether or not they were blocked when the process started. It must
// also receive a blocked signal that arrived before the call. A program inherits a blocked signal only if Signals does
// not receive it.
func TestSignals(t *testing.T) {
	all := []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR1, 50, syscall.SIGUSR2}
	if os.Getenv(listens) != "" {
		if early := syscall.SIGUSR1; blockedOf(all)>>(early-1)&1 == 1 {
			_ = syscall.Kill(os.Getpid(), early)
		}
		said := make(chan syscall.Signal)
		Signals(func(s syscall.Signal) { said <- s }, all...)
		p, err := Start(Cmd{Path: "/bin/grep", Argv: []string{"grep", "SigBlk", "/proc/self/status"},
			Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
		require.NoError(t, err)
		<-p.Done()
		for s := range said {
			_, _ = os.Stdout.WriteString("got " + s.String() + "\n")
		}
	}
	for name, blocked := range map[string][]syscall.Signal{
		"none blocked": nil, "some blocked": {syscall.SIGUSR1, 50}, "all blocked": all,
		"another one blocked": {syscall.SIGALRM, syscall.SIGUSR2},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestSignals$")
			cmd.Env = append(os.Environ(), listens+"=1")
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, startBlocked(cmd, blocked))
			defer cmd.Wait() //nolint:errcheck // it is killed
			defer cmd.Process.Kill()
			lines := bufio.NewScanner(out)
			next := func() string { require.True(t, lines.Scan()); return strings.TrimSpace(lines.Text()) }
			mask := strings.TrimSpace(strings.TrimPrefix(next(), "SigBlk:"))
			if name == "another one blocked" {
				require.Equal(t, "0000000000002000", mask, "that is passed on")
			} else {
				require.Equal(t, "0000000000000000", mask)
			}
			if slices.Contains(blocked, syscall.SIGUSR1) {
				require.Equal(t, "got user defined signal 1", next(), "the signal that came before the call")
			}
			for _, s := range all {
				require.NoError(t, cmd.Process.Signal(s))
				require.Equal(t, "got "+s.String(), next())
			}
		})
	}
}

// startBlocked starts a program that finds signals blocked.
func startBlocked(cmd *exec.Cmd, blocked []syscall.Signal) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set, old unix.Sigset_t
	for _, s := range blocked {
		set.Val[0] |= 1 << (s - 1)
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old); err != nil {
		return err
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) //nolint:errcheck // it was so before
	return cmd.Start()
}
