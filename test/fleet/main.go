// Command fleet runs a command, such as a rank, with the files of another Debian suite:
//
//	fleet ROOT COMMAND [ARG...]
//
// ROOT is a root file system that test/fleet/build has made. The command sees ROOT's /usr and /etc, which are
// read-only. It sees all other folders as the caller does, such as /proc, /dev, /tmp and home directories. The files of
// /etc with the host name, addresses, users and the configuration of ssh are those of the host, too. The command keeps
// the caller's process ID, descriptors, environment, working directory and network. All mounts are in a mount namespace
// that ends with the command. fleet must be run as root.
//
// If the command cannot be run, the exit code is 125, and a line on standard error has the reason.
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

// ownFolders lists the folders and symbolic links of / that are ROOT's. All other folders are those of the host.
var ownFolders = []string{"usr", "etc", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// hostParts lists the files and folders of /etc that are those of the host: its name, addresses, users and the
// configuration of ssh. The host's versions are mounted over those of ROOT, so ROOT must have all of them.
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

// become executes the command in this process, so that the command replaces fleet. It returns only if that fails.
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

// assemble mounts a new file system over root. In it, ownFolders are those of root, and all others those of the host.
func assemble(root string) error {
	own := map[string]int{} // descriptors of root's folders, because the new file system hides their paths
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
	// The folder of the host that contains root is mounted below. That mount must not include this file system itself.
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

// links returns the symbolic links in the folder root and their targets, such as "usr/bin" for "bin".
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

// bind makes the folder to, and mounts the folder from on it, with all file systems that are mounted in from.
func bind(from, to string) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	return cover(from, to)
}

// cover mounts the file or folder from over the existing file or folder to.
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
