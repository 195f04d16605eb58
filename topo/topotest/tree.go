package topotest

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing/fstest"

	"ibrun/internal/cpuset"
)

// tree is the files that are written so far.
type tree struct {
	files fstest.MapFS
	width int // 32-bit words that the kernel writes for a mask of CPUs
}

// text writes a file of one line. An empty one stands for a file that exists
// and cannot be read, as a copy of sysfs has it.
func (t *tree) text(name, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if text != "" {
		text += "\n"
	}
	t.files[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
}

func (t *tree) folder(name string) { t.files[name] = &fstest.MapFile{Mode: fs.ModeDir | 0o755} }

// link makes a symbolic link as sysfs has it, relative to its own folder.
func (t *tree) link(name, to string) {
	from := strings.Split(path.Dir(name), "/")
	parts := strings.Split(to, "/")
	for len(from) > 0 && len(parts) > 1 && from[0] == parts[0] {
		from, parts = from[1:], parts[1:]
	}
	target := strings.Repeat("../", len(from)) + strings.Join(parts, "/")
	t.files[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

// list writes a set in the list form. The kernel ends even an empty one with a
// new line.
func (t *tree) list(name string, s cpuset.Set) {
	t.files[name] = &fstest.MapFile{Data: []byte(s.String() + "\n"), Mode: 0o444}
}

func (t *tree) mask(name string, s cpuset.Set) { t.text(name, "%s", mask(s, t.width)) }

// mask is the kernel's mask form: words of 32 bits, the highest first.
func mask(s cpuset.Set, width int) string {
	words := make([]string, width)
	for i := range words {
		var w uint32
		for bit := range 32 {
			if s.Has(32*i + bit) {
				w |= 1 << bit
			}
		}
		words[width-1-i] = fmt.Sprintf("%08x", w)
	}
	return strings.Join(words, ",")
}
