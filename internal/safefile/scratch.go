package safefile

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	prefix   = "ibrun-scratch-"
	listName = "files"
)

// File is a file or folder outside of the folder.
type File struct {
	Root string // the folder of everybody that it is in, such as /dev/shm
	Path string // below Root
	Tree bool   // a folder: it goes with all that is in it
}

// Folder is a folder for temporary files.
type Folder struct {
	base, name string
	mu         sync.Mutex
	list       *os.File // locked
	files      map[File]bool
}

// Make makes a folder in base, for this user alone.
func Make(base string) (*Folder, error) {
	path, err := os.MkdirTemp(base, prefix)
	if err != nil {
		return nil, err
	}
	f := &Folder{base: base, name: filepath.Base(path), files: map[File]bool{}}
	// Complete before it has its name, as another process may sweep at this moment.
	list, err := os.CreateTemp(path, listName)
	if err == nil {
		f.list = list
		err = unix.Flock(int(list.Fd()), unix.LOCK_EX)
	}
	if err == nil {
		err = os.Rename(list.Name(), filepath.Join(path, listName))
	}
	if err != nil {
		f.Remove()
		return nil, err
	}
	return f, nil
}

// Path is the folder's.
func (f *Folder) Path() string { return filepath.Join(f.base, f.name) }

// Register says that a file is to be removed with the folder.
func (f *Folder) Register(file File) error {
	if strings.ContainsAny(file.Root+file.Path, "\n\x00") || !filepath.IsLocal(file.Path) {
		return fmt.Errorf("%q in %q cannot be registered", file.Path, file.Root)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files[file] {
		return nil
	}
	if _, err := f.list.WriteString(file.line()); err != nil {
		return err
	}
	f.files[file] = true
	return nil
}

// line is an entry of the list.
func (f File) line() string {
	kind := "file"
	if f.Tree {
		kind = "tree"
	}
	return fmt.Sprintf("%s\t%s\t%s\n", kind, f.Root, f.Path)
}

// parse reads what line writes.
func parse(line string) (f File, ok bool) {
	kind, rest, ok := strings.Cut(line, "\t")
	f.Tree = kind == "tree"
	f.Root, f.Path, _ = strings.Cut(rest, "\t")
	return f, ok && filepath.IsLocal(f.Path)
}

// Drop removes registered files before the folder goes.
func (f *Folder) Drop(files []File) {
	for _, file := range files {
		file.remove()
		f.mu.Lock()
		delete(f.files, file)
		f.mu.Unlock()
	}
}

// Remove removes all registered files and the folder.
func (f *Folder) Remove() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for file := range f.files {
		file.remove()
	}
	clear(f.files)
	removeTree(f.base, f.name)
	if f.list != nil {
		f.list.Close()
	}
}

// remove removes a file, if it is there and this user's.
func (f File) remove() {
	way := strings.Split(filepath.Clean(f.Path), "/")
	dir, err := Open(f.Root, way[:len(way)-1]...)
	if err != nil {
		return
	}
	defer dir.Close()
	remove := dir.Remove
	if f.Tree {
		remove = dir.RemoveAll
	}
	_ = remove(way[len(way)-1]) // most are gone
}

func removeTree(base, name string) { File{Root: base, Path: name, Tree: true}.remove() }

// Sweep removes the abandoned folders of this user in base, with what is registered in them.
func Sweep(base string) {
	found, _ := filepath.Glob(filepath.Join(base, prefix+"*"))
	for _, path := range found {
		name := filepath.Base(path)
		if dir, err := Open(base, name); err == nil { // name is no link and belongs to this user
			dir.Close()
			sweep(base, name)
		}
	}
}

func sweep(base, name string) {
	list, err := os.Open(filepath.Join(base, name, listName))
	if err != nil {
		return // of something else, or in the making
	}
	defer list.Close()
	if unix.Flock(int(list.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return // its maker lives
	}
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		if file, ok := parse(lines.Text()); ok {
			file.remove()
		}
	}
	removeTree(base, name)
}
