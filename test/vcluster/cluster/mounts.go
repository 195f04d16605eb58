package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mountAll makes the host's own view of the file system. Sources are opened first, because the new
// mounts cover them.
func mountAll(s setup) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	m := &mounter{}
	etc, run := m.open(filepath.Join(s.Dir, "etc")), m.open(filepath.Join(s.Dir, "run"))
	home, oldHome := m.open(filepath.Join(s.Dir, "home")), m.open(homeDir)
	ids := map[string]*os.File{}
	for _, name := range []string{"machine-id", "hostname", "boot_id"} {
		ids[name] = m.open(filepath.Join(s.Dir, "id", s.Name+"."+name))
	}
	cgroups := m.open("/sys/fs/cgroup")
	shares := make([]*os.File, len(s.Share))
	for i, path := range s.Share {
		shares[i] = m.open(path)
	}

	if !s.Front {
		m.fresh("/proc", "proc", "")
		m.fresh("/dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=0620,gid=5")
		m.fresh("/tmp", "tmpfs", "mode=1777")
		m.fresh("/var/tmp", "tmpfs", "mode=1777")
	}
	m.fresh("/dev/shm", "tmpfs", "mode=1777")
	m.fresh("/sys", "sysfs", "")
	m.bind(cgroups, "/sys/fs/cgroup", unix.MS_REC)
	m.bind(etc, "/etc", 0)
	m.bind(ids["machine-id"], "/etc/machine-id", 0)
	m.bind(ids["hostname"], "/etc/hostname", 0)
	m.bind(ids["boot_id"], "/proc/sys/kernel/random/boot_id", 0)
	m.fresh("/run", "tmpfs", "mode=0755")
	m.dir("/run/sshd", 0o755)
	m.dir(runDir, 0o755)
	m.bind(run, runDir, 0)
	m.home(home, oldHome, s.Front)
	for i, path := range s.Share {
		if same(shares[i], path) {
			continue
		}
		m.dir(path, 0o755)
		m.bind(shares[i], path, unix.MS_REC)
	}
	return m.err
}

// mounter makes mounts. The field err holds the first error. After an error no further mounts are made.
type mounter struct{ err error }

// open returns a descriptor with O_PATH for the source of a bind mount, or nil if the source does not exist.
func (m *mounter) open(path string) *os.File {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		if m.err == nil && !errors.Is(err, unix.ENOENT) {
			m.err = fmt.Errorf("%s: %w", path, err)
		}
		return nil
	}
	return os.NewFile(uintptr(fd), path)
}

func (m *mounter) fresh(path, kind, options string) {
	if m.err != nil {
		return
	}
	if err := unix.Mount(kind, path, kind, unix.MS_NOSUID, options); err != nil {
		m.err = fmt.Errorf("mount %s on %s: %w", kind, path, err)
	}
}

func (m *mounter) bind(source *os.File, path string, flags uintptr) {
	if m.err != nil || source == nil {
		return
	}
	from := fmt.Sprintf("/proc/self/fd/%d", source.Fd())
	if err := unix.Mount(from, path, "", unix.MS_BIND|flags, ""); err != nil {
		m.err = fmt.Errorf("bind %s on %s: %w", source.Name(), path, err)
	}
}

func (m *mounter) dir(path string, mode os.FileMode) {
	if m.err == nil {
		m.err = os.MkdirAll(path, mode)
	}
}

// home mounts a new tmpfs on root's home directory and copies template there, which contains the ssh keys of the
// cluster. On the front it also makes links to the files in old, the home directory of the machine, so that tools find
// their caches. It makes no links to .ssh and .rhosts.
func (m *mounter) home(template, old *os.File, front bool) {
	if front && old != nil {
		m.dir("/run/home", 0o700)
		m.bind(old, "/run/home", unix.MS_REC)
	}
	m.fresh(homeDir, "tmpfs", "mode=0700")
	if m.err != nil || template == nil {
		return
	}
	if m.err = os.CopyFS(homeDir, os.DirFS(fmt.Sprintf("/proc/self/fd/%d/", template.Fd()))); m.err != nil {
		return
	}
	m.err = filepath.WalkDir(homeDir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o600)
	})
	if m.err == nil {
		m.err = os.MkdirAll(homeDir+"/.ssh", 0o700)
	}
	if m.err == nil {
		m.err = os.Chmod(homeDir+"/.ssh", 0o700)
	}
	entries, _ := os.ReadDir("/run/home")
	for _, entry := range entries {
		if m.err == nil && !strings.HasPrefix(entry.Name(), ".ssh") && entry.Name() != ".rhosts" {
			_ = os.Remove(filepath.Join(homeDir, entry.Name()))
			m.err = os.Symlink(filepath.Join("/run/home", entry.Name()), filepath.Join(homeDir, entry.Name()))
		}
	}
}

// same reports whether path leads to the open file f, so that no mount is needed. If f is nil, there is nothing to
// mount, and same returns true.
func same(f *os.File, path string) bool {
	if f == nil {
		return true // nothing to share
	}
	var was, is unix.Stat_t
	if unix.Fstat(int(f.Fd()), &was) != nil || unix.Stat(path, &is) != nil {
		return false
	}
	return was.Dev == is.Dev && was.Ino == is.Ino
}
