package safefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Create opens a file for writing and makes it if there is none. What it holds
// stays. In a directory that everybody can write to, neither a link nor a file is
// taken that another user has put there: Linux can refuse these itself (proc(5),
// fs.protected_symlinks and fs.protected_regular) and does not everywhere. A terminal
// does not become that of this process's session: it would stop those that read
// it, and end all when it is closed.
func Create(path string) (*os.File, error) {
	fail := func(err error) (*os.File, error) { return nil, &fs.PathError{Op: "open", Path: path, Err: err} }
	dir, name, err := resolve(path)
	if err != nil {
		return fail(err)
	}
	if name == "" { // of procfs, whose links are this process's own open files
		return os.OpenFile(path, os.O_WRONLY|syscall.O_NOCTTY, 0)
	}
	where := filepath.Join(dir, name)
	f, err := os.OpenFile(where, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	if err = acceptable(dir, func() (fs.FileInfo, error) { return os.Lstat(where) }); err != nil {
		return fail(err) // and do not wait for the other end of a stranger's pipe
	}
	if f, err = os.OpenFile(where, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NOCTTY, 0); err != nil {
		return nil, err
	}
	if err := acceptable(dir, f.Stat); err != nil {
		f.Close()
		return fail(err)
	}
	return f, nil
}

// Replace is Create for a file whose old content is of no use.
func Replace(path string) (*os.File, error) {
	return prepared(path, func(f *os.File) error { return f.Truncate(0) })
}

// Continue is like Create, but positions the file at its end, so that writes append to it.
func Continue(path string) (*os.File, error) {
	return prepared(path, func(f *os.File) error {
		_, err := f.Seek(0, io.SeekEnd)
		return err
	})
}

// prepared calls Create, and then calls prepare if the file is regular. Pipes and devices cannot be truncated or
// positioned.
func prepared(path string, prepare func(*os.File) error) (*os.File, error) {
	f, err := Create(path)
	if err != nil {
		return nil, err
	}
	i, err := f.Stat()
	if err == nil && i.Mode().IsRegular() {
		err = prepare(f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// acceptable reports why an existing file must not be written.
func acceptable(dir string, stat func() (fs.FileInfo, error)) error {
	folder, err := os.Stat(dir)
	if err != nil || !everybodys(folder) {
		return err
	}
	i, err := stat()
	switch {
	case err != nil:
		return err
	case !trusted(i, folder):
		return fmt.Errorf("it %s, and everybody can put files into %s", owner(i), dir)
	case i.Mode().IsRegular() && i.Sys().(*syscall.Stat_t).Nlink > 1:
		return fmt.Errorf("it has a second name somewhere, and everybody can put links into %s", dir)
	}
	return nil
}

// everybodys reports whether every user can make files in a directory.
func everybodys(dir fs.FileInfo) bool { return dir.Mode().Perm()&0o002 != 0 }

// trusted reports whether an entry of a directory is this user's or is there by
// the will of the directory's owner.
func trusted(entry, dir fs.FileInfo) bool { return mine(entry) || uid(entry) == uid(dir) }

// mostLinks is how many links a path may have, as for the kernel (path_resolution(7)).
const mostLinks = 40

// resolve follows the links of a path, the last included, and refuses those that
// strangers have made. Others cannot replace what it has seen: directories that
// everybody can write to are sticky, or their users are lost anyway. No name: the
// path leads to a link of procfs.
func resolve(path string) (dir, name string, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", "", err
	}
	dir, rest, links := "/", path, 0
	for {
		name, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		at := filepath.Join(dir, name)
		entry, err := os.Lstat(at)
		if err != nil || entry.Mode().Type() != fs.ModeSymlink {
			if strings.Trim(rest, "/") == "" {
				return dir, name, nil // whatever it is: opening it tells
			}
			dir = at
			continue
		}
		var on unix.Statfs_t
		if unix.Statfs(dir, &on) == nil && on.Type == unix.PROC_SUPER_MAGIC {
			return "", "", nil
		}
		folder, err := os.Lstat(dir)
		if err != nil {
			return "", "", err
		}
		if everybodys(folder) && !trusted(entry, folder) {
			return "", "", fmt.Errorf("%s is a link that %s, and everybody can put links into %s", at, owner(entry),
				dir)
		}
		to, err := os.Readlink(at)
		if err != nil {
			return "", "", err
		}
		if links++; links > mostLinks {
			return "", "", syscall.ELOOP
		}
		if filepath.IsAbs(to) {
			dir = "/"
		}
		rest = to + "/" + rest
	}
}
