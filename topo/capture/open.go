package capture

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"ibrun/internal/exit"
	"ibrun/internal/proc"
	"ibrun/topo"
)

// Open opens a capture for topo.Read: a folder with sys/ in it, or with one
// folder alone that has it; or a tar, tar.gz or tar.bz2 of that, which is read
// into memory. Links are followed within the capture only, absolute ones from
// its root. There is nothing to close. It fails if path is no capture, or is a
// tar that has paths with .., absolute paths or more in it than a machine has.
// One goroutine at a time may use what it returns.
func Open(path string) (fs.FS, error) {
	at, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	if at.IsDir() {
		return top(path, os.DirFS(path))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	defer f.Close()
	t, err := unpack(f)
	if err != nil {
		return nil, fmt.Errorf("capture %s: %w", path, err)
	}
	return top(path, t)
}

// top finds the folder that has sys/ in it.
func top(name string, fsys fs.FS) (fs.FS, error) {
	r := newRooted(fsys)
	if isDir(r, "sys") {
		return r, nil
	}
	entries, err := fs.ReadDir(r, ".")
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() })
	if len(entries) == 1 && isDir(r, path.Join(entries[0].Name(), "sys")) {
		sub, err := fs.Sub(fsys, entries[0].Name())
		if err != nil {
			return nil, fmt.Errorf("capture: %w", err)
		}
		return newRooted(sub), nil
	}
	return nil,
		fmt.Errorf("capture %s: no folder sys in it, nor in a single folder of it: make one with ibrun --capture FILE",
			name)
}

func isDir(r *rooted, name string) bool {
	_, e, err := r.find("stat", name, true)
	return err == nil && e.kind == fs.ModeDir
}

// unpack reads a tar, compressed or not.
func unpack(from io.Reader) (*tree, error) {
	in := bufio.NewReader(from)
	magic, _ := in.Peek(3) // what is shorter is no tar either
	var plain io.Reader = in
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		plain = z
	case bytes.Equal(magic, []byte("BZh")):
		plain = bzip2.NewReader(in)
	}
	t := newTree()
	for tr := tar.NewReader(&bounded{plain, mostTar}); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if errors.Is(err, tar.ErrHeader) {
			return nil, fmt.Errorf("no tar, tar.gz or tar.bz2, or a damaged one: %w", err)
		}
		if err != nil {
			return nil, err
		}
		if err := t.add(h, tr); err != nil {
			return nil, err
		}
	}
}

// add puts an entry of a tar into the tree. What is neither file, folder nor
// link is left out: topo reads no devices.
func (t *tree) add(h *tar.Header, from io.Reader) error {
	name, err := inside(h.Name)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return t.put(name, fs.ModeDir, nil)
	case tar.TypeSymlink:
		return t.put(name, fs.ModeSymlink, []byte(h.Linkname))
	case tar.TypeLink:
		to, err := inside(h.Linkname)
		if err != nil {
			return err
		}
		old := t.nodes[to]
		if old == nil || !old.Mode.IsRegular() {
			return fmt.Errorf("%.200q is a hard link to no file before it", name)
		}
		return t.put(name, 0, old.Data)
	case tar.TypeReg:
		if h.Size > mostFile {
			return fmt.Errorf("%.200q has %d bytes: files of a machine have at most %d", name, h.Size, mostFile)
		}
		text, err := io.ReadAll(from)
		if err != nil {
			return fmt.Errorf("%.200q: %w", name, err)
		}
		return t.put(name, 0, text)
	}
	return nil
}

// inside is the path of an entry below the root of its tar.
func inside(name string) (string, error) {
	if path.IsAbs(name) || slices.Contains(strings.Split(name, "/"), "..") {
		return "", fmt.Errorf("%.200q leads out of the capture", name)
	}
	if len(name) > mostPath {
		return "", fmt.Errorf("the path %.200q... has %d bytes, at most %d can be", name, len(name), mostPath)
	}
	if name = path.Clean(name); !fs.ValidPath(name) {
		return "", fmt.Errorf("%.200q is no path", name)
	}
	return name, nil
}

// bounded is a stream that fails where it is longer than it may be.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("more than %d bytes", mostTar)
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// Machine reads the machine of a capture, or this one if no capture is named.
func Machine(name string) (*topo.Machine, error) {
	if name == "" {
		return topo.Read(proc.Here()), nil
	}
	tree, err := Open(name)
	if err != nil {
		return nil, exit.Usagef("--topo-input: %v", err)
	}
	return topo.Read(tree), nil
}
