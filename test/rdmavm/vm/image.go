package vm

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Image holds the paths of the files of an image: a kernel and its modules. Run boots an image.
type Image struct {
	Kernel  string // an ELF image
	Modules string // a cpio archive; the modules must be loaded in the order of their file names
}

// builder has the source code that builds images. The name of an image contains the checksum of this code, so that an
// image that other code has built is not used.
//
//go:embed cpio.go kernel.go image.go
var builder embed.FS

// cache is the name of the folder that contains all images, in the user's cache directory.
const cache = "ibrun-rdmavm"

// source is the name of the Debian package that always depends on the package of the newest kernel.
const source = "linux-image-amd64"

// images returns the path of the folder that contains all images, and the suffix of the names of those images that this
// version of the code has built.
func images() (dir, suffix string, err error) {
	dir, err = os.UserCacheDir()
	if err != nil {
		return "", "", err
	}
	sum := sha256.New()
	entries, err := builder.ReadDir(".")
	if err != nil {
		return "", "", err
	}
	for _, entry := range entries {
		text, err := builder.ReadFile(entry.Name())
		if err != nil {
			return "", "", err
		}
		sum.Write(text)
	}
	return filepath.Join(dir, cache), fmt.Sprintf("-%.6x", sum.Sum(nil)), nil
}

func at(dir string) Image {
	return Image{Kernel: filepath.Join(dir, "vmlinux"), Modules: filepath.Join(dir, "modules.cpio")}
}

// Cached returns an image that has been built before, or builds one with Build. Any kernel version will do. Cached
// calls say with a message before a long download.
func Cached(say func(string)) (Image, error) {
	dir, suffix, err := images()
	if err != nil {
		return Image{}, err
	}
	found, err := filepath.Glob(filepath.Join(dir, "linux-image-*"+suffix))
	if err != nil || len(found) == 0 {
		return Build(say)
	}
	return at(found[len(found)-1]), nil
}

// Build builds an image of the newest kernel if it does not exist, removes the images of other kernels, and returns the
// image. It calls say with a message before a long download. It does not need root, because it unpacks the Debian
// package of the kernel and does not install it.
func Build(say func(string)) (Image, error) {
	if err := requirePrograms("apt-get", "apt", "dpkg-deb", "dpkg", "xz", "xz-utils"); err != nil {
		return Image{}, err
	}
	dir, suffix, err := images()
	if err != nil {
		return Image{}, err
	}
	name, err := newest()
	if err != nil {
		return Image{}, err
	}
	target := filepath.Join(dir, name+suffix)
	if _, err := os.Stat(target); err == nil {
		return at(target), nil
	}
	say("building an image of " + name + ", once: a download of about 70 MB")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Image{}, err
	}
	// Each process builds in its own folder, which it then renames to target. If several processes build at the same
	// time, the image that is renamed first is used.
	if err := sweep(dir); err != nil {
		return Image{}, err
	}
	work, err := os.MkdirTemp(dir, building)
	if err != nil {
		return Image{}, err
	}
	defer os.RemoveAll(work)
	if err := download(work, name); err != nil {
		return Image{}, err
	}
	made := filepath.Join(work, "made")
	if err := os.Mkdir(made, 0o755); err != nil {
		return Image{}, err
	}
	if err := convert(work, at(made)); err != nil {
		return Image{}, fmt.Errorf("%s: %w", name, err)
	}
	if err := os.Rename(made, target); err != nil && !errors.Is(err, os.ErrExist) {
		return Image{}, err
	}
	all, err := filepath.Glob(filepath.Join(dir, "linux-image-*"+suffix))
	for _, image := range all {
		if image != target {
			err = errors.Join(err, os.RemoveAll(image))
		}
	}
	if err != nil {
		return Image{}, err
	}
	return at(target), nil
}

// building is the prefix of the folders in which images are built.
const building = "building-"

// sweep removes folders in which images were built if they are more than an hour old. The process that built there was
// killed.
func sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, building+"*"))
	for _, work := range left {
		if there, statErr := os.Stat(work); statErr == nil && time.Since(there.ModTime()) > time.Hour {
			err = errors.Join(err, os.RemoveAll(work))
		}
	}
	return err
}

// withPackageLists calls do, which needs the package lists of apt. If do fails and this process runs as root, it
// updates the lists, which may be missing or out of date, and calls do again.
func withPackageLists(do func() error) error {
	err := do()
	if err == nil || os.Getuid() != 0 {
		return err
	}
	if _, err := output("", "apt-get", "update"); err != nil {
		return err
	}
	return do()
}

// newest returns the name of the Debian package of the newest kernel, such as linux-image-6.1.0-37-amd64.
func newest() (name string, err error) {
	err = withPackageLists(func() error {
		depends, err := output("", "apt-cache", "depends", "--important", source)
		name = regexp.MustCompile(`linux-image-[0-9]\S*`).FindString(depends)
		if err == nil && name == "" {
			err = fmt.Errorf("no kernel package found for %s: run apt-get update, on Debian", source)
		}
		return err
	})
	return name, err
}

// download downloads the Debian package name and unpacks it in the folder dir.
func download(dir, name string) error {
	if err := withPackageLists(func() error {
		_, err := output(dir, "apt-get", "download", name)
		return err
	}); err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("apt-get download %s left %d packages", name, len(found))
	}
	_, err = output(dir, "dpkg-deb", "-x", found[0], dir)
	return err
}

// convert creates the files of an image from an unpacked kernel package. It searches the whole package for modules,
// because they are in /lib in Debian 12 and in /usr/lib since Debian 13.
func convert(unpacked string, to Image) error {
	kernels, err := filepath.Glob(filepath.Join(unpacked, "boot", "vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		return fmt.Errorf("the package has %d kernels", len(kernels))
	}
	packed, err := os.ReadFile(kernels[0])
	if err != nil {
		return err
	}
	kernel, err := unpackKernel(packed)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to.Kernel, kernel, 0o644); err != nil {
		return err
	}
	paths, err := modules(unpacked)
	if err != nil {
		return err
	}
	return pack(to.Modules, paths)
}

// output runs a program in the folder dir and returns its standard output. If the program fails, the error contains its
// standard error.
func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var complaint bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err,
			strings.TrimSpace(complaint.String()))
	}
	return string(out), nil
}

// requirePrograms returns an error if some of the programs are not installed. The error has the command that installs
// their packages. The arguments are pairs: the name of a program and its Debian package.
func requirePrograms(programs ...string) error {
	var names, packages []string
	for i := 0; i < len(programs); i += 2 {
		if _, err := exec.LookPath(programs[i]); err != nil {
			names, packages = append(names, programs[i]), append(packages, programs[i+1])
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s: not found; apt-get install -y --no-install-recommends %s", strings.Join(names, ", "),
		strings.Join(packages, " "))
}
