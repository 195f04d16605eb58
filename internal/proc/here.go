package proc

import (
	"io/fs"
	"os"
)

// Tree is the files of this machine, for those who read captures of others, too.
type Tree struct{ tree }

// tree is all that os.DirFS can: what is hidden, fs replaces by what is not the same.
type tree interface {
	fs.ReadLinkFS
	fs.ReadDirFS
	fs.StatFS
}

// Here is the whole machine.
func Here() Tree { return Tree{os.DirFS("/").(tree)} }

// Start is the beginning of a file, at most so many bytes, as Read has it. The path is
// one of fs.FS.
func (Tree) Start(path string, most int) ([]byte, error) { return Read("/"+path, most) }
