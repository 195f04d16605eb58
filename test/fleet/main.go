// Fleet runs a command with the files of another Debian suite, as a rank too:
//
//	fleet ROOT COMMAND [ARG...]
//
// ROOT is what test/fleet/build has made. The command sees ROOT's /usr and /etc, read-only, and all
// else as the caller does: /proc, /dev with /dev/shm, /tmp, home directories, and of /etc the name,
// addresses, users and ssh of the host. It keeps the caller's process id, descriptors, environment,
// working directory and network. All mounts are in a mount namespace that ends with the command; it
// needs root.
//
// A failure before the command runs is exit code 125 with a line on standard error.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownFolders come from ROOT, all other folders of / from the host.
var ownFolders = []string{"usr", "etc", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// hostParts of /etc say who and where the host is, and whom its ssh trusts. ROOT has all of them,
// if only empty.
var hostParts = []string{"hosts", "hostname", "passwd", "group", "nsswitch.conf", "resolv.conf", "machine-id", "ssh"}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: fleet ROOT COMMAND [ARG...]")
		os.Exit(2)
	}
	err := become(os.Args[1], os.Args[2:])
	fmt.Fprintf(os.Stderr, "fleet: %v\n", err)
	os.Exit(125)
}

// become turns this process into the command; it returns only if that fails.
func become(root string, argv []string) error {
	folder, err := os.Getwd()
	if err != nil {
		return err
	}
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	runtime.LockOSThread() // namespaces belong to the thread that executes the command
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("cannot make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot make mounts private: %w", err)
	}
	if err := assemble(root); err != nil {
		return err
	}
	if err := unix.Chroot(root); err != nil {
		return fmt.Errorf("chroot %s: %w", root, err)
	}
	if err := os.Chdir(folder); err != nil {
		return err
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, argv, os.Environ()))
}

// assemble mounts a file system over root that shows root's own folders and the host's others.
func assemble(root string) error {
	own := map[string]int{} // descriptors, since the new file system covers the paths
	for _, name := range []string{"usr", "etc"} {
		fd, err := unix.Open(filepath.Join(root, name), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("%s is no root file system: %s: %w", root, name, err)
		}
		own[name] = fd
	}
	links, err := links(root)
	if err != nil {
		return err
	}
	host, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	if err := unix.Mount("fleet", root, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount tmpfs on %s: %w", root, err)
	}
	// Else the host's folder that has root in it would show this file system in itself.
	if err := unix.Mount("", root, "", unix.MS_UNBINDABLE, ""); err != nil {
		return fmt.Errorf("cannot make %s unbindable: %w", root, err)
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	for name, fd := range own {
		from := fmt.Sprintf("/proc/self/fd/%d", fd)
		if err := errors.Join(bind(from, filepath.Join(root, name)), readOnly(filepath.Join(root, name))); err != nil {
			return err
		}
	}
	for _, entry := range host {
		if !entry.IsDir() || slices.Contains(ownFolders, entry.Name()) {
			continue
		}
		if err := bind("/"+entry.Name(), filepath.Join(root, entry.Name())); err != nil {
			return err
		}
	}
	for _, name := range hostParts {
		if _, err := os.Stat("/etc/" + name); err != nil {
			continue
		}
		if err := cover("/etc/"+name, filepath.Join(root, "etc", name)); err != nil {
			return err
		}
	}
	return nil
}

// links are the symbolic links in the uppermost folder of a root: bin to usr/bin and others.
func links(root string) (map[string]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, entry := range entries {
		if entry.Type() == os.ModeSymlink {
			to, err := os.Readlink(filepath.Join(root, entry.Name()))
			if err != nil {
				return nil, err
			}
			found[entry.Name()] = to
		}
	}
	return found, nil
}

// bind shows a folder, with all that is mounted in it, at a new path.
func bind(from, to string) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	return cover(from, to)
}

// cover is bind for a path that is there.
func cover(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s on %s: %w", from, to, err)
	}
	return nil
}

func readOnly(path string) error {
	if err := unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("cannot make %s read-only: %w", path, err)
	}
	return nil
}
