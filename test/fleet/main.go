// Command fleet runs a command, such as a rank, with the files of another Debian suite:
//
//	fleet ROOT COMMAND [ARG...]
//
// ROOT is a root file system that test/fleet/build has made. The command sees /usr and /etc of ROOT, read-only, and all
// other folders of the host, such as /proc, /dev, /tmp and home directories. The files in /etc that have the host name,
// addresses, users and the configuration of ssh are also those of the host. The command runs in the process of fleet,
// with the same open files, environment, working directory and network. Its mounts are in a new mount namespace, which
// ends with the command. fleet must be run as root.
//
// If the command cannot be executed, fleet prints the reason on standard error and exits with code 125.
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

// rootFolders lists the folders of / that the command sees as they are in ROOT, or that are symbolic links there. All
// other folders are those of the host.
var rootFolders = []string{"usr", "etc", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// hostEntries lists the files and folders of /etc that the command sees as they are on the host. They are mounted over
// the files and folders of the same name in ROOT, so ROOT must have all that the host has.
var hostEntries = []string{"hosts", "hostname", "passwd", "group", "nsswitch.conf", "resolv.conf", "machine-id", "ssh"}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: fleet ROOT COMMAND [ARG...]")
		os.Exit(2)
	}
	err := execCommand(os.Args[1], os.Args[2:])
	fmt.Fprintf(os.Stderr, "fleet: %v\n", err)
	os.Exit(125)
}

// execCommand makes a mount namespace with the folders of root and of the host, and replaces this process by the
// command argv. It returns only if that fails.
func execCommand(root string, argv []string) error {
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

// assemble mounts a new file system over the folder root. The new file system shows rootFolders as they were in root,
// and all other folders and hostEntries as they are on the host.
func assemble(root string) error {
	own := map[string]int{} // descriptors of usr and etc in root, whose paths the new file system hides
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
	// Below, the folder of the host that contains root is mounted in the new file system. An unbindable mount is left out
	// of that recursive mount, so the new file system does not contain itself.
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
		if !entry.IsDir() || slices.Contains(rootFolders, entry.Name()) {
			continue
		}
		if err := bind("/"+entry.Name(), filepath.Join(root, entry.Name())); err != nil {
			return err
		}
	}
	for _, name := range hostEntries {
		if _, err := os.Stat("/etc/" + name); err != nil {
			continue
		}
		if err := mountOver("/etc/"+name, filepath.Join(root, "etc", name)); err != nil {
			return err
		}
	}
	return nil
}

// links returns a map from the names of the symbolic links in the folder root to their targets, such as from "bin" to
// "usr/bin".
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

// bind makes the folder to, and mounts the folder from on it by a bind mount, with all file systems below from.
func bind(from, to string) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	return mountOver(from, to)
}

// mountOver mounts the file or folder from over the existing file or folder to by a bind mount, with all file systems
// below from.
func mountOver(from, to string) error {
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
