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

// Image holds the paths of a kernel and its modules, which Run boots.
type Image struct {
	Kernel  string // an ELF image
	Modules string // a cpio archive; the names of its files sort in the order of loading
}

// builder is the source code that builds an image. Its checksum is part of the names of images, so that images of other
// versions of the code are not used.
//
//go:embed cpio.go kernel.go image.go
var builder embed.FS

// cache is the name of the folder of images in the user's cache directory.
const cache = "ibrun-rdmavm"

// source is the Debian package that depends on the package of the newest kernel.
const source = "linux-image-amd64"

// images returns the folder of images, and the suffix of the names of images that this version of the code has built.
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

// Cached returns an existing image of any kernel, or builds one if there is none. It passes a message to say before a
// long download.
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

// Build builds an image of the newest kernel, unless it exists, and then removes the images of other kernels. It does
// not need root, because it unpacks the package without installing it.
func Build(say func(string)) (Image, error) {
	if err := need("apt-get", "apt", "dpkg-deb", "dpkg", "xz", "xz-utils"); err != nil {
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
	// Each process builds in a folder of its own. If several build at the same time, the first image that is
	// renamed to target stays.
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

// sweep removes folders in which images were built, if they are older than an hour: their builders were killed.
func sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, building+"*"))
	for _, work := range left {
		if there, statErr := os.Stat(work); statErr == nil && time.Since(there.ModTime()) > time.Hour {
			err = errors.Join(err, os.RemoveAll(work))
		}
	}
	return err
}

// listed calls do, which needs apt's package lists. If do fails, the lists may be missing or too old. Then listed, as
// root, updates them and calls do again.
func listed(do func() error) error {
	err := do()
	if err == nil || os.Getuid() != 0 {
		return err
	}
	if _, err := output("", "apt-get", "update"); err != nil {
		return err
	}
	return do()
}

// newest returns the name of the Debian package of the newest kernel.
func newest() (name string, err error) {
	err = listed(func() error {
		depends, err := output("", "apt-cache", "depends", "--important", source)
		name = regexp.MustCompile(`linux-image-[0-9]\S*`).FindString(depends)
		if err == nil && name == "" {
			err = fmt.Errorf("no kernel package found for %s: run apt-get update, on Debian", source)
		}
		return err
	})
	return name, err
}

// download downloads the package name and unpacks it into dir.
func download(dir, name string) error {
	if err := listed(func() error {
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

// convert creates the files of an image from an unpacked package. It looks for modules in the whole package, because
// they are below /lib in Debian 12 and below /usr since Debian 13.
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

// output runs a program in dir and returns its standard output. If the program fails, the error contains its standard
// error.
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

// need returns an error if programs are not installed, with the command that installs their packages. The arguments are
// pairs of a program and its Debian package.
func need(programs ...string) error {
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
