package e2e

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/internal/proc"
)

// user sits at a terminal in which ibrun runs.
type user struct {
	t     *testing.T
	keys  *os.File // our end of the terminal
	tty   *os.File // the other one, which ibrun has too
	ibrun *exec.Cmd

	mu     sync.Mutex
	output strings.Builder
}

// sit starts ibrun in a terminal of 30 lines.
func sit(t *testing.T, args ...string) *user { return sitWith(t, nil, args...) }

// sitWith is sit with an environment; nil: this process's own.
func sitWith(t *testing.T, env []string, args ...string) *user {
	keys, tty, err := proc.OpenTerminal(30, 100, false)
	require.NoError(t, err)
	u := &user{t: t, keys: keys, tty: tty, ibrun: command(t, args...)}
	t.Cleanup(func() { keys.Close(); tty.Close() })
	u.ibrun.Env = env
	u.ibrun.Stdin, u.ibrun.Stdout, u.ibrun.Stderr = tty, tty, tty
	u.ibrun.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, u.ibrun.Start())
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := keys.Read(buf)
			u.mu.Lock()
			u.output.Write(buf[:n])
			u.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return u
}

// sees waits until the terminal shows a text.
func (u *user) sees(text string) {
	u.t.Helper()
	eventually(u.t, patience, text, func() bool { return strings.Contains(u.screen(), text) })
}

func (u *user) screen() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.output.String()
}

func (u *user) types(keys string) {
	u.t.Helper()
	_, err := u.keys.WriteString(keys)
	require.NoError(u.t, err)
}

// gives waits until the rank has the terminal.
func (u *user) gives() {
	u.t.Helper()
	eventually(u.t, patience, "a raw terminal", func() bool {
		how, err := unix.IoctlGetTermios(int(u.tty.Fd()), unix.TCGETS)
		return err == nil && how.Lflag&unix.ECHO == 0
	})
}

// leaves waits for the end of ibrun, which leaves the terminal as it was.
func (u *user) leaves(code int) {
	u.t.Helper()
	_ = u.ibrun.Wait()
	require.Equal(u.t, code, u.ibrun.ProcessState.ExitCode(), u.screen())
	how, err := unix.IoctlGetTermios(int(u.tty.Fd()), unix.TCGETS)
	require.NoError(u.t, err)
	require.NotZero(u.t, how.Lflag&unix.ECHO, "it echoes again")
	require.NotZero(u.t, how.Oflag&unix.OPOST)
}

// converses has a program that answers lines show that keys, Ctrl-C and the size reach it.
func (u *user) converses() {
	u.t.Helper()
	u.types("hello\r")
	u.sees("got <hello>\r\n")
	u.types("\x03")
	u.sees("interrupted\r\n")
	require.NoError(u.t, proc.Resize(u.keys, 40, 120))
	eventually(u.t, patience, "the size", func() bool {
		u.types("size\r")
		return strings.Contains(u.screen(), "size yes 40 120\r\n")
	})
}

// A shell with a terminal on another node: keys, signals by keys, the size.
func TestPty(t *testing.T) {
	const rank = `
if [ $IBRUN_RANK = 1 ]; then [ -t 0 ] || [ -t 1 ] || echo "other has none"; exit 0; fi
[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo "all three"
trap 'resized=yes' WINCH
trap 'echo interrupted' INT
echo first $(stty size)
while read -r line; do
	case $line in quit) exit 7 ;; size) echo size $resized $(stty size) ;; *) echo "got <$line>" ;; esac
done`
	u := sit(t, "--launcher", "local", "-H", "a,b", "--pty", "--keep-going", "bash", "-c", rank)
	u.sees("all three\r") // and perhaps another one, while the terminal is not raw yet
	u.sees("first 30 100\r")
	eventually(t, patience, "the other rank", func() bool { // which ends right on a raw terminal, too
		return regexp.MustCompile("other has none\r\r?\n").MatchString(u.screen())
	})
	u.gives()
	u.converses()
	u.types("~~tilde\r")
	u.sees("got <~tilde>\r\n")
	u.types("quit\r")
	u.leaves(7)
	u.sees("ibrun: rank 0 on a exited with code 7\r\n")
}

// The way out of a program that takes no signals.
func TestPtyEscape(t *testing.T) {
	u := sit(t, "--pty", "--kill-grace", "1", "sh", "-c",
		`trap '' INT TERM; stty raw -echo; printf ready; while :; do sleep 1; done`)
	u.sees("ready")
	u.gives()
	u.types("\x03")
	u.types("\r~.")
	u.leaves(143)
}

// Before ranks have started, Ctrl-C ends ibrun.
func TestPtyInterruptedLaunch(t *testing.T) {
	u := sit(t, "--pty", "-v", "--launcher-exec", "sh -c 'echo connecting >&2; sleep 1000'", "-H", "nowhere",
		"--launch-timeout", "50", "true")
	u.sees("\r\n")
	u.types("\x03")
	u.leaves(130)
}

// Without a terminal of the user's the rank has one all the same, and its input ends.
func TestPtyOfAPipe(t *testing.T) {
	c := command(t, "--pty", "sh", "-c", `[ -t 0 ] && wc -c; echo end`)
	c.Stdin = strings.NewReader("one\ntwo")
	o := finish(t, c)
	require.Equal(t, 0, o.code, o.stderr)
	require.True(t, strings.HasSuffix(string(o.stdout), "7\r\nend\r\n"), "after its echo: %q", o.stdout)
	o = ibrun(t, "--pty", "-l", "true")
	require.Equal(t, 2, o.code)
	require.Contains(t, o.stderr, "--pty contradicts -l")
}

// A program that fills a buffer when it writes to a pipe writes line by line to a terminal; what it
// writes is not changed.
func TestLineBuffered(t *testing.T) {
	c := command(t, "--line-buffered", "perl", "-e", `print "begun\n"; <STDIN>; print "a\r\n\tb";`)
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	var got strings.Builder
	buf := make([]byte, 100)
	for !strings.Contains(got.String(), "begun\n") {
		n, err := out.Read(buf)
		require.NoError(t, err)
		got.Write(buf[:n])
	}
	require.NoError(t, in.Close())
	for {
		n, err := out.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			break
		}
	}
	require.NoError(t, c.Wait())
	require.Equal(t, "begun\na\r\n\tb", got.String())
	o := ibrun(t, "--line-buffered", "sh", "-c", `[ -t 1 ] && [ ! -t 0 ] && [ ! -t 2 ] && printf 'x\ny\n'`)
	require.Equal(t, "x\ny\n", string(o.stdout))
}
