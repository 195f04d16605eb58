//go:build cluster

package remote

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/build"
	"ibrun/internal/build/pack"
	"ibrun/internal/executable"
	"ibrun/internal/skip"
	"ibrun/test/waitfor"
)

// packedCopy is the variable that says where a packed copy of this test shall leave what was sent.
const packedCopy = "IBRUN_TEST_PACKED_COPY"

// A node that has zstd is sent the binary packed, and can send it on in the same way. One without
// it is sent all bytes.
func TestSentPacked(t *testing.T) {
	if to := os.Getenv(packedCopy); to != "" {
		sendPacked(t, to)
		return
	}
	dir := t.TempDir()
	program, err := os.ReadFile(build.Path())
	require.NoError(t, err)
	first, sent, again := filepath.Join(dir, "first"), filepath.Join(dir, "sent"), filepath.Join(dir, "again")
	require.NoError(t, executable.Write(first, program))
	if err := pack.Into(first, "", pack.Quick); errors.Is(err, pack.ErrNone) {
		skip.Because(t, err.Error())
	} else {
		require.NoError(t, err)
	}
	for _, hop := range [][2]string{{first, sent}, {sent, again}} {
		cmd := exec.Command(hop[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), packedCopy+"="+hop[1])
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, content(t, first), content(t, hop[1]))
	}
}

// sendPacked is what a packed copy of this test does: it sends itself.
func sendPacked(t *testing.T, to string) {
	plain, packed, err := build.Forms()
	require.NoError(t, err)
	require.Less(t, packed.Size, plain.Size/2)

	n := newNode(t, "/bin/sh", "", waitfor.Deadline)
	require.Equal(t, shipped, n.launch(t))
	require.Equal(t, found, n.launch(t))
	require.Empty(t, left(t, n.cache()))
	require.NoError(t, executable.Write(to, content(t, n.cached())))

	// One that has but a few tools, and no zstd that works.
	tools := t.TempDir()
	for _, name := range []string{"sh", "stat", "head", "uname", "timeout", "mktemp", "chmod", "mkdir", "rm", "mv",
		"cat", "sed", "sha256sum", "true", "rmdir"} {
		at, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(at, filepath.Join(tools, name)))
	}
	for _, broken := range []string{"", "#!/bin/sh\necho no >&2; exit 1\n", "#!/bin/sh\nexit 0\n", "no program"} {
		if broken != "" {
			require.NoError(t, executable.Write(filepath.Join(tools, "zstd"), []byte(broken)))
		}
		bare := newNode(t, "/bin/sh", "PATH="+tools, waitfor.Deadline)
		require.Equal(t, shipped, bare.launch(t), broken)
		require.Len(t, content(t, bare.cached()), int(plain.Size), broken)
		require.Equal(t, found, bare.launch(t), broken)
		require.Empty(t, left(t, bare.cache()))
	}

	// One that unpacks something else.
	wrong := "#!/bin/sh\ncase $* in *-d*) echo x;; *) cat;; esac\n"
	require.NoError(t, executable.Write(filepath.Join(tools, "zstd"), []byte(wrong)))
	other := newNode(t, "/bin/sh", "PATH="+tools, waitfor.Deadline)
	_, err = other.starter.Start(t.Context(), Target{Host: "h", other: true}, func(Phase) {})
	require.ErrorContains(t, err, "arrived damaged or in part")
	require.NoFileExists(t, other.cached())
	gone := func() bool { return len(left(t, other.cache())) == 0 } // its shell tidies up after it has said so
	waitfor.Require(t, "nothing is left", gone)
}

func content(t *testing.T, file string) []byte {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return text
}
