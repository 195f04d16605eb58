// Package hooks tests the git hooks of this folder, which make hooks installs.
package hooks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommitMsgChecksTheSubject(t *testing.T) {
	file := filepath.Join(t.TempDir(), "message")
	for message, accepted := range map[string]bool{
		"lazy/peer: keep the window\n\nA body.":      true,
		"\n# a comment of git\n.ci: run the linter":  true,
		"docs: " + strings.Repeat("é", 66):           true,
		"docs: " + strings.Repeat("é", 67):           false,
		"lazy/peer: \n":                              false,
		"keep the window":                            false,
		"two words: no package":                      false,
		"":                                           false,
		"Merge branch 'topic' into main":             true,
		"fixup! lazy/peer: keep the window":          true,
		"squash! keep the window\n\nlazy/peer: more": true,
	} {
		require.NoError(t, os.WriteFile(file, []byte(message), 0o600))
		out, err := exec.Command("sh", "commit-msg", file).CombinedOutput()
		require.Equal(t, accepted, err == nil, "%q: %s", message, out)
	}
}
