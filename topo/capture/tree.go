package capture

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// tree is a file system in memory. It does not follow links: rooted does.
type tree struct {
	nodes map[string]*node // by path; "." is the root
	bytes int
}

// node is a file, a folder or a link, and what fs says of it.
type node struct {
	name   string
	kind   fs.FileMode // 0: a file
	text   []byte      // of a file
	target string      // of a link
	under  []*node     // of a folder
}

func newTree() *tree {
	return &tree{nodes: map[string]*node{".": {name: ".", kind: fs.ModeDir}}}
}

// put adds a node, and folders above it that are missing. As with tar, the
// later of two files stays.
func (t *tree) put(name string, n node) error {
	if t.bytes += len(n.text); t.bytes > mostText {
		return fmt.Errorf("more than %d bytes in files", mostText)
	}
	if old := t.nodes[name]; old != nil {
		if old.kind != n.kind {
			return fmt.Errorf("%.200q is there twice, as different things", name)
		}
		old.text, old.target = n.text, n.target
		return nil
	}
	dir := path.Dir(name)
	if t.nodes[dir] == nil {
		if err := t.put(dir, node{kind: fs.ModeDir}); err != nil {
			return err
		}
	}
	if t.nodes[dir].kind != fs.ModeDir {
		return fmt.Errorf("%.200q is below something that is no folder", name)
	}
	if len(t.nodes) >= mostEntries {
		return fmt.Errorf("more than %d files and folders", mostEntries)
	}
	n.name = path.Base(name)
	t.nodes[name] = &n
	t.nodes[dir].under = append(t.nodes[dir].under, &n)
	return nil
}

func (t *tree) find(op, name string) (*node, error) {
	if n := t.nodes[name]; n != nil {
		return n, nil
	}
	return nil, failed(op, name, fs.ErrNotExist)
}

// Open opens a file or a folder.
func (t *tree) Open(name string) (fs.File, error) {
	n, err := t.find("open", name)
	if err != nil {
		return nil, err
	}
	return n.open(), nil
}

// ReadDir lists a folder, sorted.
func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := t.find("readdir", name)
	if err != nil {
		return nil, err
	}
	return n.open().ReadDir(-1)
}

// Lstat describes a file, a folder or a link.
func (t *tree) Lstat(name string) (fs.FileInfo, error) { return t.find("lstat", name) }

// ReadLink is where a link leads.
func (t *tree) ReadLink(name string) (string, error) {
	n, err := t.find("readlink", name)
	if err == nil && n.kind != fs.ModeSymlink {
		err = failed("readlink", name, fs.ErrInvalid)
	}
	if err != nil {
		return "", err
	}
	return n.target, nil
}

// Name, Size, Mode, ModTime, IsDir and Sys make a node an fs.FileInfo.
func (n *node) Name() string       { return n.name }
func (n *node) Size() int64        { return int64(len(n.text)) }
func (n *node) Mode() fs.FileMode  { return n.kind | 0o444 }
func (n *node) ModTime() time.Time { return time.Time{} }
func (n *node) IsDir() bool        { return n.kind == fs.ModeDir }
func (n *node) Sys() any           { return nil }

// open makes an fs.File of a node.
func (n *node) open() *openNode {
	under := slices.SortedFunc(slices.Values(n.under), func(a, b *node) int { return strings.Compare(a.name, b.name) })
	return &openNode{bytes.NewReader(n.text), n, under}
}

type openNode struct {
	*bytes.Reader
	node  *node
	under []*node // not listed yet
}

// Stat describes the file.
func (f *openNode) Stat() (fs.FileInfo, error) { return f.node, nil }

// Close does nothing: all is in memory.
func (f *openNode) Close() error { return nil }

// ReadDir lists the next n entries, or all that are left.
func (f *openNode) ReadDir(n int) ([]fs.DirEntry, error) {
	if !f.node.IsDir() {
		return nil, failed("readdir", f.node.name, fs.ErrInvalid)
	}
	if n <= 0 {
		n = len(f.under)
	} else if len(f.under) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(f.under))
	var entries []fs.DirEntry
	for _, e := range f.under[:n] {
		entries = append(entries, fs.FileInfoToDirEntry(e))
	}
	f.under = f.under[n:]
	return entries, nil
}
