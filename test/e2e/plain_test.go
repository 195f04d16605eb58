package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/internal/executable"
)

// commanding is text that commands a terminal, in ways that terminals of 7 and of 8
// bits obey, or shows something else than what is there.
const commanding = "\x9b2J\x1b[2J\u009b2J\u202eso"

func init() {
	scenarios["commanding"] = func(r *rank, _ string) { r.Abort(3, commanding) }
}

// requirePlain fails if a terminal would obey some of a text.
func requirePlain(t *testing.T, text string) {
	t.Helper()
	for _, c := range text { // 0xfffd is a byte that is no UTF-8
		require.False(t, c != '\n' && c < ' ' || c >= 0x7f && c < 0xa0 || c == 0x202e || c == 0xfffd, "%q in %q", c,
			text)
	}
}

// Messages of ibrun are plain wherever they go, also what ranks and nodes say in them.
func TestMessagesArePlain(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, executable.Write(path, []byte(content)))
		return path
	}
	for name, args := range map[string][]string{
		"a node's shell": {"--launcher-exec", file("shell", "#!/bin/sh\ncat <<'E' >&2\n"+commanding+
			"\nE\nexit 1\n"), "-H", "far", "true"},
		"a rank's reason":            {"-n", "1", self, ":world", "commanding"},
		"a program that is not here": {"-n", "1", commanding},
		"a program after a limit": {
			"--launcher-exec", file("low", "#!/bin/sh\nshift\nulimit -Sn 100\nexec sh -c \"$*\"\n"), "-H", "far",
			file(commanding, "#!/nonexistent\n"),
		},
		"an option":         {"--" + commanding, "true"},
		"an option's value": {"-n", commanding, "true"},
		"a variable":        {"-n", "1", "-x", commanding, "true"},
		"a file for output": {"-n", "1", "--output", dir + "/" + commanding + "/x", "true"},
		"a map":             {"-n", "1", "--display", "map", "echo", commanding},
	} {
		o := ibrun(t, args...)
		require.NotEmpty(t, o.stderr, name)
		requirePlain(t, o.stderr)
		require.Regexp(t, `\\x9b2J`, o.stderr, "%s: it is written out", name)
	}
}

// The output of ranks is plain on a terminal, and exact elsewhere.
func TestOutputIsPlainOnTerminals(t *testing.T) {
	ours, theirs := terminal(t)
	c := command(t, "-n", "2", "printf", commanding+`\n`)
	c.Stdin, c.Stdout, c.Stderr = theirs, theirs, theirs
	require.NoError(t, c.Start())
	require.NoError(t, theirs.Close())
	shown, err := io.ReadAll(ours)
	require.ErrorIs(t, errors.Join(err, syscall.EIO), syscall.EIO, "how a terminal ends")
	require.NoError(t, c.Wait())
	requirePlain(t, strings.ReplaceAll(string(shown), "\r\n", "\n"))
	require.Equal(t, 2, bytes.Count(shown, []byte(`\x9b2J`)), "%q", shown)

	o := ibrun(t, "-n", "1", "printf", commanding)
	require.Equal(t, commanding, string(o.stdout))
}

// terminal is a pseudo terminal: our end, and that of a program.
func terminal(t *testing.T) (ours, theirs *os.File) {
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { ours.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	return ours, theirs
}
