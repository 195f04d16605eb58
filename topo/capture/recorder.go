package capture

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing/fstest"
)

// Recorder is a file system that remembers what was read through it: files with
// their text, the links on the way to them, and what is in folders that were
// listed. So a tar of it gives the same answers to the same reader. A file that
// was listed, but not read, or could not be, is empty in the tar: what hwloc's
// captures have for it too. One goroutine at a time may use it.
type Recorder struct {
	*rooted
	texts  map[string][]byte // of files, by path without links
	listed map[string]bool   // files in folders that were listed
	bytes  int               // of all texts
	err    error             // what did not fit
}

// NewRecorder records what is read of a file system.
func NewRecorder(under fs.FS) *Recorder {
	r := &Recorder{rooted: newRooted(under), texts: map[string][]byte{}, listed: map[string]bool{}}
	// To the kernel this is a link to the process that asks; in a capture its
	// number would say nothing and differ each time.
	r.keep = func(name string) bool { return name == "proc/self" }
	return r
}

// Open reads a whole file, or lists a folder, and returns what is recorded of it.
func (r *Recorder) Open(name string) (fs.File, error) {
	at, e, err := r.find("open", name, true)
	if err != nil {
		return nil, err
	}
	if e.kind == fs.ModeDir {
		if err := r.list(at); err != nil {
			return nil, failed("open", name, err)
		}
		return r.under.Open(at)
	}
	text, err := r.read(at)
	if err != nil {
		return nil, failed("open", name, err)
	}
	return fstest.MapFS{at: newNode(0, text)}.Open(at)
}

// Lstat describes a file, a folder or a link. A file is read, so that it is
// in the tar.
func (r *Recorder) Lstat(name string) (fs.FileInfo, error) {
	at, e, err := r.find("lstat", name, false)
	if err != nil {
		return nil, err
	}
	if e.kind == 0 {
		_, _ = r.read(at) // what cannot be read is left out
	}
	return fs.Lstat(r.under, at)
}

// list remembers what is in a folder.
func (r *Recorder) list(dir string) error {
	entries, err := fs.ReadDir(r.under, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		if e, err := r.look(at); err == nil && e.kind == 0 { // it may be gone meanwhile
			r.listed[at] = true
		}
	}
	return nil
}

// read is the text of a file. Sizes in sysfs and procfs are made up, so it has
// to be read before it can be written.
func (r *Recorder) read(at string) ([]byte, error) {
	if text, ok := r.texts[at]; ok || r.err != nil {
		return text, r.err
	}
	f, err := r.rooted.Open(at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostFile))
	if err != nil {
		return nil, err
	}
	text = public(at, text)
	if r.bytes += len(text); r.bytes > mostText {
		r.err = fmt.Errorf("%s does not fit into a capture, whose files may have %d bytes in all", at, mostText)
		return nil, r.err
	}
	r.texts[at] = text
	return text, nil
}

// public cuts files that tell more of a user than topo asks, such as the names
// of file servers.
func public(at string, text []byte) []byte {
	var wanted func(line string) bool
	switch at {
	case "proc/mounts", "proc/self/mounts":
		wanted = func(line string) bool {
			words := strings.Fields(line)
			return len(words) > 2 && slices.Contains([]string{"cgroup", "cgroup2", "cpuset"}, words[2])
		}
	case "proc/self/status":
		wanted = func(line string) bool {
			return strings.HasPrefix(line, "Cpus_allowed") || strings.HasPrefix(line, "Mems_allowed")
		}
	case "proc/cpuinfo": // of some ARM boards
		wanted = func(line string) bool { return !strings.HasPrefix(line, "Serial") }
	default:
		return text
	}
	var kept []byte
	for line := range bytes.Lines(text) {
		if wanted(string(line)) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// WriteTar writes what was recorded, sorted by path, without times and owners.
// It fails if more was read than a capture may hold.
func (r *Recorder) WriteTar(to io.Writer) error {
	if r.err != nil {
		return r.err
	}
	if len(r.visited) > mostEntries {
		return fmt.Errorf("%d files and folders do not fit into a capture, which may have %d", len(r.visited),
			mostEntries)
	}
	w := tar.NewWriter(to)
	for _, name := range slices.Sorted(maps.Keys(r.visited)) {
		if name == "." {
			continue
		}
		h := &tar.Header{Name: name}
		var text []byte
		switch e := r.visited[name]; e.kind {
		case fs.ModeDir:
			h.Typeflag, h.Name, h.Mode = tar.TypeDir, name+"/", 0o755
		case fs.ModeSymlink:
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.target, 0o777
		default:
			var read bool
			if text, read = r.texts[name]; e.kind != 0 || !read && !r.listed[name] {
				continue
			}
			h.Typeflag, h.Size, h.Mode = tar.TypeReg, int64(len(text)), 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("capture of %s: %w", name, err)
		}
		if _, err := w.Write(text); err != nil {
			return fmt.Errorf("capture of %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("end of the capture: %w", err)
	}
	return nil
}
