// Package safefile opens and removes files in directories to which all users can write, such as /tmp. In such a
// directory it follows no link and writes no file that another user has put there, unless that user owns the directory.
// It removes only files of this user. Peer returns the user at the other end of a Unix socket.
//
// A Folder is a directory for temporary files, named ibrun-scratch-*. Files in other directories can be registered with
// it: a list in the Folder names them, and Remove removes them along with the Folder. The process that makes a Folder
// holds a lock on the list, and calls Remove before it exits. If it is killed, the kernel releases the lock, and the
// next Sweep by a process of the same user removes the Folder and the registered files.
package safefile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Dir is an open directory. It stays the same one whatever happens to its name.
type Dir struct{ root *os.Root }

// Open opens a directory of any owner, by any path, and from there one in the
// other with Dir.
func Open(path string, way ...string) (*Dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{root}
	for _, name := range way {
		next, err := d.Dir(name)
		d.Close()
		if err != nil {
			return nil, err
		}
		d = next
	}
	return d, nil
}

// Dir opens a directory that lies in d, is no link, and is this user's.
func (d *Dir) Dir(name string) (*Dir, error) {
	if err := d.element(name); err != nil {
		return nil, err
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := root.Stat(".")
	if err == nil {
		var entry fs.FileInfo // after opening: if this is the entry, no link was followed
		if entry, err = d.root.Lstat(name); err == nil && !os.SameFile(entry, opened) {
			err = d.refuse(name, "is a link")
		}
	}
	if err == nil && !mine(opened) {
		err = d.refuse(name, owner(opened))
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return &Dir{root}, nil
}

// Remove removes a file or an empty directory of this user's.
func (d *Dir) Remove(name string) error { return d.remove(name, d.root.Remove) }

// RemoveAll removes a file or directory of this user's with all that is in it.
// Links in it are removed and not followed.
func (d *Dir) RemoveAll(name string) error { return d.remove(name, d.root.RemoveAll) }

func (d *Dir) remove(name string, how func(string) error) error {
	if err := d.element(name); err != nil {
		return err
	}
	entry, err := d.root.Lstat(name)
	switch {
	case err != nil:
		return err
	case !mine(entry):
		return d.refuse(name, owner(entry))
	}
	return how(name)
}

// Close releases the directory. Those opened from it stay open.
func (d *Dir) Close() { d.root.Close() }

// element makes sure that a name has no directory in it.
func (d *Dir) element(name string) error {
	if name != filepath.Base(name) || name == "." || name == ".." {
		return d.refuse(name, "is not the name of one entry")
	}
	return nil
}

func (d *Dir) refuse(name, why string) error { return fmt.Errorf("%s/%s %s", d.root.Name(), name, why) }

func mine(i fs.FileInfo) bool { return uid(i) == os.Geteuid() }

func uid(i fs.FileInfo) int { return int(i.Sys().(*syscall.Stat_t).Uid) }

func owner(i fs.FileInfo) string { return fmt.Sprintf("belongs to user %d", uid(i)) }
