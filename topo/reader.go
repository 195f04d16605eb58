package topo

import (
	"bytes"
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
	brief bool // as ReadPlaces has it
	notes []string
	units *bool // of computeUnits; nil: not asked for yet
}

// mostText bounds a file. Attributes of sysfs are at most a page; procfs has
// longer ones, of which cpuinfo and meminfo matter.
const mostText = 4 << 20

// mostSet bounds a list or mask: the longest list, every other of mostCPUs, has
// 20 kB.
const mostSet = 32 << 10

// mostHead is how much of a file matters that says the first thing first.
const mostHead = 4 << 10

// mostNotes bounds what a hostile tree can make us say.
const mostNotes = 16

func (r *reader) note(format string, args ...any) {
	if len(r.notes) == mostNotes {
		return
	}
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// text is a file without the white space around it and without the NUL that old
// kernels wrote behind lists. The path is from the root of the tree, without a
// slash before it.
func (r *reader) text(path string) (string, bool) { return r.start(path, mostText) }

// head is the beginning of a file; empty: there is none.
func (r *reader) head(path string) string {
	text, _ := r.start(path, mostHead)
	return text
}

func (r *reader) start(path string, most int) (string, bool) {
	start := r.open
	if quick, ok := r.fsys.(starter); ok {
		start = quick.Start
	}
	b, err := start(path, most)
	return string(bytes.Trim(b, " \t\n\x00")), err == nil
}

// starter is a tree that gives the beginning of a file in fewer calls than Open,
// Read and Close, as this machine's does.
type starter interface {
	Start(path string, most int) ([]byte, error)
}

func (r *reader) open(path string, most int) ([]byte, error) {
	f, err := r.fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(most)))
}

// number is a file that holds one decimal number. An empty file is a missing
// one: in captures it stands for a file that could not be read.
func (r *reader) number(path string) (int, bool) {
	text, ok := r.text(path)
	if !ok || text == "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		r.note("%s holds %.40q, which is no number", path, text)
	}
	return n, err == nil
}

// field returns the value of name in a text whose lines have a name, a separator and a value. White space around names
// and values is ignored.
func field(text, name, separator string) (value string, ok bool) {
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(line, separator)
		if found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// list is a file that holds a list like 0-3,8.
func (r *reader) list(path string) (cpuset.Set, bool) { return r.set(path, cpuset.ParseList) }

// mask is a file that holds a mask like 0000000f.
func (r *reader) mask(path string) (cpuset.Set, bool) { return r.set(path, cpuset.ParseMask) }

func (r *reader) set(path string, parse func(string) (cpuset.Set, error)) (cpuset.Set, bool) {
	text, ok := r.text(path)
	if !ok || text == "" {
		return cpuset.Set{}, ok
	}
	if len(text) > mostSet {
		r.note("%s is longer than a set of CPUs can be", path)
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
