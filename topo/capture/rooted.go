package capture

import (
	"errors"
	"io/fs"
	"path"
	"strings"
)

// mostLinks bounds the links on the way to a file, as the kernel's MAXSYMLINKS
// does.
const mostLinks = 40

var (
	errLinks = errors.New("too many symbolic links")
	errKind  = errors.New("neither a file nor a folder")
)

// rooted resolves symbolic links in a file system by itself: absolute ones are
// meant from its root, and none leads out of it. It remembers what it saw, so
// the file system must not change meanwhile. One goroutine at a time may use it.
type rooted struct {
	under   fs.FS
	keep    func(name string) bool // links that are taken for folders; nil: none
	visited map[string]entry       // by path without links
	dirs    map[string]string      // paths without links of folders
}

// entry is a folder, a file or a link.
type entry struct {
	kind   fs.FileMode
	target string // of a link
}

func newRooted(under fs.FS) *rooted {
	return &rooted{under: under, visited: map[string]entry{}, dirs: map[string]string{}}
}

// look finds out what is at a path without links before its end.
func (r *rooted) look(name string) (entry, error) {
	if e, ok := r.visited[name]; ok {
		return e, nil
	}
	at, err := fs.Lstat(r.under, name)
	if err != nil {
		return entry{}, err
	}
	e := entry{kind: at.Mode().Type()}
	if e.kind == fs.ModeSymlink {
		if r.keep != nil && r.keep(name) {
			e.kind = fs.ModeDir
		} else if e.target, err = fs.ReadLink(r.under, name); err != nil {
			return entry{}, err
		}
	}
	r.visited[name] = e
	return e, nil
}

// real is the path without links that a name leads to. If the name's end is a
// link, it is only followed if the caller says so.
func (r *rooted) real(name string, follow bool) (string, error) {
	if !fs.ValidPath(name) {
		return "", fs.ErrInvalid
	}
	dir := path.Dir(name)
	at, ok := r.dirs[dir]
	if !ok {
		var err error
		if at, err = r.walk(".", dir, true); err != nil {
			return "", err
		}
		r.dirs[dir] = at
	}
	return r.walk(at, path.Base(name), follow)
}

// walk resolves a name that is meant from a folder.
func (r *rooted) walk(at, name string, follow bool) (string, error) {
	links := 0
	for todo := strings.Split(name, "/"); len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at) // of the root: the root
			continue
		}
		next := path.Join(at, part)
		if len(todo) == 0 && !follow {
			return next, nil
		}
		e, err := r.look(next)
		if err != nil {
			return "", err
		}
		if e.kind != fs.ModeSymlink {
			at = next
			continue
		}
		if links++; links > mostLinks || len(e.target) > mostPath {
			return "", errLinks
		}
		if path.IsAbs(e.target) {
			at = "."
		}
		todo = append(strings.Split(e.target, "/"), todo...)
	}
	return at, nil
}

func failed(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// find returns the path that name leads to once its links are resolved, and the entry there. If the last element of
// name is a link, it is resolved only if follow is set. The error is an *fs.PathError with op and name.
func (r *rooted) find(op, name string, follow bool) (at string, e entry, err error) {
	if at, err = r.real(name, follow); err == nil {
		e, err = r.look(at)
	}
	if err != nil {
		return "", entry{}, failed(op, name, err)
	}
	return at, e, nil
}

// Open opens a file or a folder. A pipe or a device, which could block, is
// refused.
func (r *rooted) Open(name string) (fs.File, error) {
	at, e, err := r.find("open", name, true)
	if err != nil {
		return nil, err
	}
	if e.kind != 0 && e.kind != fs.ModeDir {
		return nil, failed("open", name, errKind)
	}
	return r.under.Open(at)
}

// Lstat describes a file, a folder or a link.
func (r *rooted) Lstat(name string) (fs.FileInfo, error) {
	at, _, err := r.find("lstat", name, false)
	if err != nil {
		return nil, err
	}
	return fs.Lstat(r.under, at)
}

// ReadLink is where a link leads, as it is written.
func (r *rooted) ReadLink(name string) (string, error) {
	_, e, err := r.find("readlink", name, false)
	if err != nil {
		return "", err
	}
	if e.kind != fs.ModeSymlink {
		return "", failed("readlink", name, fs.ErrInvalid)
	}
	return e.target, nil
}
