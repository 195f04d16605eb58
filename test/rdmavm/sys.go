package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"ibrun/topo/topotest"
)

// sysWithin is the name of an internal subcommand. withHCA runs rdmavm with it in a new mount namespace.
const sysWithin = "sys-within"

// becomeWithHCA parses the arguments of rdmavm sys, adds the files of the simulated HCA to /sys and /dev, and replaces
// this process by the command. It returns only if that fails. It must run in its own mount namespace.
func becomeWithHCA(args []string) error {
	port := topotest.Port{SMLID: 1}
	hca := topotest.HCA{}
	flags := flag.NewFlagSet("sys", flag.ContinueOnError)
	flags.StringVar(&hca.Name, "name", "mlx5_0", "")
	lid := flags.Uint("lid", 27, "")
	flags.StringVar(&port.State, "state", "ACTIVE", "")
	flags.StringVar(&port.Layer, "layer", "InfiniBand", "")
	flags.IntVar(&hca.NUMA, "numa", 0, "")
	flags.Float64Var(&port.Rate, "rate", 100, "")
	command, err := options(flags, args)
	if err != nil {
		return err
	}
	port.LID = uint32(*lid)
	hca.Ports = []topotest.Port{port}
	// Package topotest simulates a whole machine, which must have the NUMA node of the HCA. Only the HCA's files are used.
	nodes := max(hca.NUMA, 0) + 1
	machine := topotest.Machine{NUMAPerPackage: nodes, CoresPerPackage: nodes, HCAs: []topotest.HCA{hca}}
	if err := machine.Check(); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := mountTree("/sys", onlyHCA(machine.Files())); err != nil {
		return err
	}
	if err := mountTree("/dev", fstest.MapFS{"dev/infiniband": {Mode: fs.ModeDir | 0o755}}); err != nil {
		return err
	}
	if err := unix.Mknod("/dev/infiniband/uverbs0", unix.S_IFCHR|0o666, int(unix.Mkdev(231, 192))); err != nil &&
		!errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("/dev/infiniband/uverbs0: %w", err)
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, command, os.Environ())
}

// onlyHCA returns those files of a simulated machine that describe its HCA, and further files that libibverbs reads.
func onlyHCA(tree fstest.MapFS) fstest.MapFS {
	kept := fstest.MapFS{"sys/class/infiniband_verbs/abi_version": {Data: []byte("6\n"), Mode: 0o444}}
	for name, file := range tree {
		for _, prefix := range []string{"sys/class/infiniband", "sys/devices/pci", "sys/bus/pci/devices"} {
			if strings.HasPrefix(name, prefix) {
				kept[name] = file
			}
		}
		// libibverbs selects the driver of a device by the contents of its file modalias.
		if card, ok := strings.CutSuffix(name, "/infiniband_verbs/uverbs0/ibdev"); ok {
			kept[card+
				"/modalias"] = &fstest.MapFile{Data: []byte("pci:v000015B3d0000101Bsv000015B3sd00000001bc02sc07i00\n"),
				Mode: 0o444}
		}
	}
	return kept
}

// mountTree mounts a tmpfs over the folder, which then has the files of tree and, as bind mounts, all other entries
// that it had before. The paths in tree begin with the path of the folder, without the first slash.
func mountTree(folder string, tree fstest.MapFS) error {
	fd, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Mount("tmpfs", folder, "tmpfs", unix.MS_NOSUID, "mode=0755"); err != nil {
		return err
	}
	return merge(tree, folder, fmt.Sprintf("/proc/self/fd/%d", fd))
}

// merge creates the entries of tree for the folder, which must be empty. If below is not "", it also makes all entries
// of the folder below that tree does not have visible in the folder.
func merge(tree fstest.MapFS, folder, below string) error {
	ours, err := tree.ReadDir(folder[1:])
	if err != nil {
		return err
	}
	laid := map[string]bool{}
	for _, entry := range ours {
		laid[entry.Name()] = true
		path := filepath.Join(folder, entry.Name())
		switch entry.Type() {
		case fs.ModeDir:
			lower := filepath.Join(below, entry.Name())
			if there, err := os.Lstat(lower); below == "" || err != nil || !there.IsDir() {
				lower = ""
			}
			if err = os.Mkdir(path, 0o755); err == nil {
				err = merge(tree, path, lower)
			}
		case fs.ModeSymlink:
			err = os.Symlink(string(tree[path[1:]].Data), path)
		default:
			err = os.WriteFile(path, tree[path[1:]].Data, tree[path[1:]].Mode)
		}
		if err != nil {
			return err
		}
	}
	if below == "" {
		return nil
	}
	theirs, err := os.ReadDir(below + "/")
	if err != nil {
		return err
	}
	for _, entry := range theirs {
		if laid[entry.Name()] {
			continue
		}
		if err := bindEntry(filepath.Join(below, entry.Name()), filepath.Join(folder, entry.Name()),
			entry.Type()); err != nil {
			return err
		}
	}
	return nil
}

// bindEntry makes the file or folder from visible at path by a bind mount. If kind is that of a symbolic link, it
// creates a copy of the link at path instead.
func bindEntry(from, path string, kind fs.FileMode) error {
	if kind == fs.ModeSymlink {
		to, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(to, path)
	}
	var err error
	if kind == fs.ModeDir {
		err = os.Mkdir(path, 0o755)
	} else {
		err = os.WriteFile(path, nil, 0o644)
	}
	if err != nil {
		return err
	}
	return os.NewSyscallError("bind "+path, unix.Mount(from, path, "", unix.MS_BIND|unix.MS_REC, ""))
}
