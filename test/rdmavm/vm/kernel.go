package vm

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// guestModules lists the kernel modules that the guest loads, in this order. Each is loaded after its dependencies. The
// list includes crc32_generic, because rdma_rxe needs it for checksums but does not declare it as a dependency.
var guestModules = []string{
	"virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay", "dummy", "macvlan",
	"crc32_generic", "ib_uverbs", "ib_umad", "rdma_rxe", "rdma_ucm",
}

// Offsets in the header of a bzImage (the kernel's Documentation/arch/x86/boot.rst).
const (
	setupSectors  = 0x1f1
	headerMagic   = 0x202
	payloadOffset = 0x248
	payloadLength = 0x24c
	headerEnd     = 0x250
	sector        = 512
)

// unpackKernel returns the ELF image of the kernel that a bzImage contains in compressed form. qemu can boot both.
// Without KVM, the guest would take seconds to decompress a bzImage.
func unpackKernel(image []byte) ([]byte, error) {
	if len(image) < headerEnd || string(image[headerMagic:headerMagic+4]) != "HdrS" {
		return nil, errors.New("not a bzImage")
	}
	start := (int64(image[setupSectors])+1)*sector + int64(binary.LittleEndian.Uint32(image[payloadOffset:]))
	end := start + int64(binary.LittleEndian.Uint32(image[payloadLength:]))
	if end > int64(len(image)) {
		return nil, errors.New("the bzImage is cut short")
	}
	payload := image[start:end]
	// The payload ends with its unpacked size, which is not part of the compressed stream.
	for magic, program := range map[string][]string{
		"\xfd7zXZ": {"xz", "-dc", "--single-stream"}, "\x28\xb5\x2f\xfd": {"zstd", "-dcq"}, "\x1f\x8b": {"gzip",
			"-dcq"},
	} {
		if !bytes.HasPrefix(payload, []byte(magic)) {
			continue
		}
		unpack := exec.Command(program[0], program[1:]...)
		unpack.Stdin = bytes.NewReader(payload[:len(payload)-4])
		kernel, err := unpack.Output()
		if err == nil && !bytes.HasPrefix(kernel, []byte(elf.ELFMAG)) {
			err = errors.New("it is no ELF image")
		}
		if err != nil {
			return nil, fmt.Errorf("%s of the bzImage's payload: %w", program[0], err)
		}
		return kernel, nil
	}
	return nil, fmt.Errorf("the compression of the bzImage is not known: %x", payload[:4])
}

// modules returns the paths of guestModules and their dependencies below the folder root, in an order in which they can
// be loaded. It skips modules that have no file, because they may be built into the kernel. If such a module is not in
// the kernel either, the guest reports an error later.
func modules(root string) (paths []string, err error) {
	files := map[string]string{}
	if err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".ko"); ok && err == nil {
			files[moduleName(name)] = path
		}
		return err
	}); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no *.ko below %s", root)
	}
	seen := map[string]bool{}
	var visit func(name string) error
	visit = func(name string) error {
		name = moduleName(name)
		path := files[name]
		if seen[name] || path == "" {
			return nil
		}
		seen[name] = true
		depends, err := dependencies(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, below := range depends {
			if err := visit(below); err != nil {
				return err
			}
		}
		paths = append(paths, path)
		return nil
	}
	for _, name := range guestModules {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// moduleName returns the name by which dependencies refer to a module: that of its file with underscores for hyphens.
func moduleName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// dependencies returns the dependencies of a module, from the string "depends=a,b" in its section .modinfo.
func dependencies(path string) ([]string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	section := file.Section(".modinfo")
	if section == nil {
		return nil, errors.New("no section .modinfo")
	}
	text, err := section.Data()
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(string(text), "\x00") {
		if list, ok := strings.CutPrefix(line, "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}

// pack writes a cpio archive with the files of modules to path. The names of the files in the archive begin with
// numbers, in the order of modules.
func pack(path string, modules []string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	a := archive{to: file}
	a.dir(moduleDir[1:])
	for i, module := range modules {
		content, err := os.ReadFile(module)
		if err != nil {
			return err
		}
		a.program(fmt.Sprintf("%s/%02d-%s", moduleDir[1:], i, filepath.Base(module)), content)
	}
	return errors.Join(a.end(), file.Close())
}
