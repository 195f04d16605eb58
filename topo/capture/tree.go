package capture

import (
	"fmt"
	"io/fs"
	"path"
	"testing/fstest"
)

// tree is a file system in memory. It does not follow links, which type rooted resolves. Each call makes a small
// fstest.MapFS, because a MapFS of all files would search all of them for each folder.
type tree struct {
	nodes map[string]*fstest.MapFile // by path; "." is the root
	under map[string][]string        // names in a folder, by its path
	bytes int
}

func newTree() *tree {
	return &tree{nodes: map[string]*fstest.MapFile{".": newNode(fs.ModeDir, nil)}, under: map[string][]string{}}
}

// newNode returns a file (kind 0), a folder or a link. Data is the content of a file or the target of a link.
func newNode(kind fs.FileMode, data []byte) *fstest.MapFile {
	return &fstest.MapFile{Mode: kind | 0o444, Data: data}
}

// put adds a node, and folders above it that are missing. As with tar, the
// later of two files stays.
func (t *tree) put(name string, kind fs.FileMode, data []byte) error {
	if t.bytes += len(data); t.bytes > mostText {
		return fmt.Errorf("more than %d bytes in files", mostText)
	}
	if old := t.nodes[name]; old != nil {
		if old.Mode.Type() != kind {
			return fmt.Errorf("%.200q is there twice, as different things", name)
		}
		old.Data = data
		return nil
	}
	dir := path.Dir(name)
	if t.nodes[dir] == nil {
		if err := t.put(dir, fs.ModeDir, nil); err != nil {
			return err
		}
	}
	if !t.nodes[dir].Mode.IsDir() {
		return fmt.Errorf("%.200q is below something that is no folder", name)
	}
	if len(t.nodes) >= mostEntries {
		return fmt.Errorf("more than %d files and folders", mostEntries)
	}
	t.nodes[name] = newNode(kind, data)
	t.under[dir] = append(t.under[dir], path.Base(name))
	return nil
}

// part returns a file system with one node and, if the node is a folder, its entries. If the node does not exist, the
// calls of the file system fail with fs.ErrNotExist.
func (t *tree) part(name string) fstest.MapFS {
	part := fstest.MapFS{name: t.nodes[name]}
	for _, entry := range t.under[name] {
		below := path.Join(name, entry)
		part[below] = t.nodes[below]
	}
	return part
}

// Open opens a file or a folder. A link opens as an empty file.
func (t *tree) Open(name string) (fs.File, error) {
	part := t.part(name)
	if n := part[name]; n != nil && n.Mode.Type() == fs.ModeSymlink {
		part[name] = newNode(0, nil)
	}
	return part.Open(name)
}

func (t *tree) Lstat(name string) (fs.FileInfo, error) { return t.part(name).Lstat(name) }

func (t *tree) ReadLink(name string) (string, error) { return t.part(name).ReadLink(name) }
