package topo

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"ibrun/internal/cpuset"
)

// reader reads the small files of sysfs and procfs. What is missing is no
// error: kernels and containers leave out what they like.
type reader struct {
	fsys  fs.FS
	notes []string
}

// mostText bounds a file. Attributes of sysfs are at most a page; procfs has
// longer ones, of which cpuinfo and meminfo matter.
const mostText = 4 << 20

// mostNotes bounds what a hostile tree can make us say.
const mostNotes = 16

func (r *reader) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(r.notes) < mostNotes && !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// text is a file without the white space around it. The path is from the root
// of the tree, without a slash before it.
func (r *reader) text(path string) (string, bool) {
	f, err := r.fsys.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostText))
	return strings.TrimSpace(string(b)), err == nil
}

// number is a file that holds one decimal number.
func (r *reader) number(path string) (int, bool) {
	text, ok := r.text(path)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		r.note("%s holds %.40q, which is no number", path, text)
	}
	return n, err == nil
}

// list is a file that holds a list like 0-3,8.
func (r *reader) list(path string) (cpuset.Set, bool) { return r.set(path, cpuset.ParseList) }

// mask is a file that holds a mask like 0000000f.
func (r *reader) mask(path string) (cpuset.Set, bool) { return r.set(path, cpuset.ParseMask) }

func (r *reader) set(path string, parse func(string) (cpuset.Set, error)) (cpuset.Set, bool) {
	text, ok := r.text(path)
	if !ok {
		return cpuset.Set{}, false
	}
	s, err := parse(text)
	if err != nil {
		r.note("%s: %v", path, err)
	}
	return s, err == nil
}

// names are a folder's entries, sorted.
func (r *reader) names(dir string) []string {
	entries, err := fs.ReadDir(r.fsys, dir)
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// target is where a symbolic link points, as it is written.
func (r *reader) target(path string) (string, bool) {
	to, err := fs.ReadLink(r.fsys, path)
	return to, err == nil
}
