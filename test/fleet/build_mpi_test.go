//go:build mpi

package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/skip"
)

// TestUnsignedIsRefused runs test/fleet/build with a mirror whose release file is not signed. The script must fail
// although the apt configuration of the machine trusts this mirror. It must leave only its lock file in the cache.
func TestUnsignedIsRefused(t *testing.T) {
	codename, err := exec.Command("sh", "-c", `. /etc/os-release; printf %s "$ID $VERSION_CODENAME"`).Output()
	require.NoError(t, err)
	var id, name string
	if n, _ := fmt.Sscan(string(codename), &id, &name); n != 2 || id != "debian" {
		skip.Because(t, "this machine is not Debian")
	}
	dir := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	architecture, err := exec.Command("dpkg", "--print-architecture").Output()
	require.NoError(t, err)
	index := "main/binary-" + string(architecture[:len(architecture)-1]) + "/Packages"
	write("mirror/dists/trixie/"+index, "")
	write("mirror/dists/trixie/Release", fmt.Sprintf(
		"Suite: stable\nCodename: trixie\nComponents: main\nDate: Sat, 12 Sep 2026 08:00:00 UTC\nSHA256:\n %x 0 %s\n",
		sha256.Sum256(nil), index))
	write("sources.list", fmt.Sprintf("deb [trusted=yes] file:%s/mirror %s main\n", dir, name))
	write("apt.conf", fmt.Sprintf("Dir::Etc::SourceList \"%s/sources.list\";\nDir::Etc::SourceParts \"/dev/null\";\n"+
		"Acquire::AllowInsecureRepositories \"true\";\nAPT::Get::AllowUnauthenticated \"true\";\n", dir))

	cmd := exec.Command("./build", filepath.Join(dir, "cache"))
	cmd.Env = append(os.Environ(), "APT_CONFIG="+filepath.Join(dir, "apt.conf"))
	out, err := cmd.CombinedOutput()
	require.ErrorContains(t, err, "exit status 1", "%s", out)
	require.Contains(t, string(out), "mirror trixie Release' is not signed.")
	kept, err := os.ReadDir(filepath.Join(dir, "cache"))
	require.NoError(t, err)
	require.Len(t, kept, 1, "the lock")
}
