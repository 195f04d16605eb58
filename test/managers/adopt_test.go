//go:build managers

package managers

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/stretchr/testify/require"

	"ibrun/test/skip"
)

// pamAdopt is the path of Slurm's PAM module for sshd. The module moves the processes of an ssh session into the cgroup
// of the user's job on the node. It refuses users who have no job on the node. It does not apply to root.
const pamAdopt = "/lib/security/pam_slurm_adopt.so"

// The name and the id of the user whose ssh sessions are adopted.
const (
	adoptedUser = "adopted"
	adoptedID   = 5000
)

// configureAdoption configures PAM on the nodes so that ssh sessions use pamAdopt, and creates the user adoptedUser on
// all hosts. It returns a prefix for a command that makes it run as this user.
func (b *bed) configureAdoption() []string {
	if _, err := os.Stat(pamAdopt); err != nil {
		skip.Because(b.t, "pam_slurm_adopt is missing: make test-managers installs it")
	}
	etc, top := b.c.Etc(), filepath.Dir(b.c.Shared())
	home := filepath.Join(b.c.Shared(), adoptedUser)
	write := func(path, text string, flags int) {
		require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flags, 0o600)
		require.NoError(b.t, err)
		_, err = f.WriteString(text)
		require.NoError(b.t, err)
		require.NoError(b.t, f.Close())
	}
	write(filepath.Join(etc, "pam.d/sshd"), "auth required pam_permit.so\naccount sufficient "+pamAdopt+
		"\naccount required pam_deny.so\nsession required pam_permit.so\n", os.O_TRUNC)
	for _, name := range []string{"slurm.conf", "cgroup.conf"} { // where the module looks
		path := filepath.Join(etc, "slurm", name)
		write(path, b.read(filepath.Join("slurm", name)), os.O_TRUNC)
		require.NoError(b.t, os.Chmod(path, 0o644))
	}
	id := strconv.Itoa(adoptedID)
	write(filepath.Join(etc, "passwd"), fmt.Sprintf("%s:x:%s:%s::%s:/bin/sh\n", adoptedUser, id, id, home), os.O_APPEND)
	write(filepath.Join(etc, "shadow"), adoptedUser+":*:19000:0:99999:7:::\n", os.O_APPEND)
	write(filepath.Join(etc, "group"), adoptedUser+":x:"+id+":\n", os.O_APPEND)
	key, err := os.ReadFile(filepath.Join(top, "home/.ssh/id_ed25519"))
	require.NoError(b.t, err)
	write(filepath.Join(home, ".ssh/id_ed25519"), string(key), os.O_TRUNC)
	for _, path := range []string{home, filepath.Join(home, ".ssh"), filepath.Join(home, ".ssh/id_ed25519")} {
		require.NoError(b.t, os.Chown(path, adoptedID, adoptedID))
	}
	require.NoError(b.t, os.Chmod(top, 0o711))
	return []string{"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "env", "HOME=" + home, "USER=" +
		adoptedUser}
}
