package topo_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/topo"
)

const (
	cpuDir  = "sys/devices/system/cpu/"
	nodeDir = "sys/devices/system/node/"
)

// world is a machine in a few lines, each of which writes some files:
//
//	cpu 0-7                 folders with nothing inside
//	online 0-3,6            cpu/online
//	core 0 0,4              core_id 0, siblings 0 and 4
//	package 1 4-7           physical_package_id 1, siblings 4 to 7
//	cache 3 Unified 0-3     level, type, CPUs
//	node 0 0-3 10,20        CPUs and distances of a NUMA node with 1 MB; - for none
//	each 0-3 cpu_capacity 9 a file in the folder of each CPU
//	PATH = TEXT             any file; \n begins a new line
//	- PATH                  removes a file, or the files of a folder
//
// Siblings may be a mask instead of a list, with 0x before it, and are then
// written as old kernels did.
type world string

func (w world) files() fstest.MapFS {
	files := fstest.MapFS{}
	put := func(path, text string) { files[path] = &fstest.MapFile{Data: []byte(text + "\n")} }
	for line := range strings.Lines(string(w)) {
		line = strings.TrimSpace(line)
		if path, text, ok := strings.Cut(line, " = "); ok {
			if fs.ValidPath(path) && path != "." {
				put(path, strings.ReplaceAll(text, `\n`, "\n"))
			}
			continue
		}
		words := append(strings.Fields(line), "", "", "", "")
		switch words[0] {
		case "cpu":
			for cpu := range set(words[1]).All() {
				files[fmt.Sprintf("%scpu%d", cpuDir, cpu)] = &fstest.MapFile{Mode: fs.ModeDir}
			}
		case "online":
			put(cpuDir+"online", words[1])
		case "core":
			siblings(put, words, "topology/", "core_id", "core_cpus_list", "thread_siblings")
		case "package":
			siblings(put, words, "topology/", "physical_package_id", "package_cpus_list", "core_siblings")
		case "cache":
			for cpu := range set(words[3]).All() {
				dir := fmt.Sprintf("%scpu%d/cache/index", cpuDir, cpu)
				n := 0
				for files[dir+strconv.Itoa(n)+"/level"] != nil {
					n++
				}
				dir += strconv.Itoa(n) + "/"
				put(dir+"level", words[1])
				put(dir+"type", words[2])
				put(dir+"shared_cpu_list", words[3])
			}
		case "node":
			dir := nodeDir + "node" + words[1] + "/"
			put(dir+"cpulist", strings.Trim(words[2], "-"))
			put(dir+"meminfo", "Node "+words[1]+" MemTotal:   1024 kB\nNode "+words[1]+" MemFree: 5 kB")
			if words[3] != "" {
				put(dir+"distance", strings.ReplaceAll(words[3], ",", " "))
			}
		case "each":
			for cpu := range set(words[1]).All() {
				put(fmt.Sprintf("%scpu%d/%s", cpuDir, cpu, words[2]), words[3])
			}
		case "-":
			for path := range files {
				if path == words[1] || strings.HasPrefix(path, words[1]+"/") {
					delete(files, path)
				}
			}
		}
	}
	return files
}

// siblings writes the files of a core or package for each of its CPUs.
func siblings(put func(path, text string), words []string, dir, id, list, mask string) {
	name := list
	if strings.HasPrefix(words[2], "0x") {
		name = mask
	}
	for cpu := range set(words[2]).All() {
		path := fmt.Sprintf("%scpu%d/%s", cpuDir, cpu, dir)
		put(path+id, words[1])
		put(path+name, strings.TrimPrefix(words[2], "0x"))
	}
}

// set reads a list, or a mask with 0x before it. What is wrong is empty: the
// fuzzer writes worlds too. So is what would make more files than a MapFS can
// search in time.
func set(text string) cpuset.Set {
	parse := cpuset.ParseList
	if strings.HasPrefix(text, "0x") {
		parse = cpuset.ParseMask
	}
	s, err := parse(text)
	if err != nil || s.Len() > 300 {
		return cpuset.Set{}
	}
	return s
}

// unfold writes a world into a folder of the test's own. As in sysfs, there is a
// mask beside each list, which hwloc reads.
func (w world) unfold(t testing.TB) string {
	dir := t.TempDir()
	put := func(path string, text []byte) {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, text, 0o644))
	}
	masks := strings.NewReplacer("_cpu_list", "_cpu_map", "_cpus_list", "_cpus", "/cpulist", "/cpumap")
	files := w.files()
	for path, file := range files {
		if file.Mode.IsDir() {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, path), 0o755))
			continue
		}
		put(path, file.Data)
		if as := masks.Replace(path); as != path && files[as] == nil {
			put(as, []byte(mask(set(string(file.Data)))))
		}
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "proc"), 0o755))
	return dir
}

// mask is a set in the kernel's other form.
func mask(s cpuset.Set) string {
	words := make([]uint32, s.Last()/32+1)
	for n := range s.All() {
		words[n/32] |= 1 << (n % 32)
	}
	text := ""
	for _, w := range slices.Backward(words) {
		text += fmt.Sprintf(",%08x", w)
	}
	return strings.TrimPrefix(text, ",") + "\n"
}

// picture is a machine in lines, each with a word for what it shows.
func picture(m *topo.Machine) map[string]string {
	objects := func(objects []topo.Object) string {
		var words []string
		for _, o := range objects {
			words = append(words, fmt.Sprintf("%d:%s", o.ID, o.CPUs))
		}
		return strings.Join(words, " ")
	}
	var nodes, distances, bytes []string
	for i := range m.Memories {
		n := &m.Memories[i]
		nodes = append(nodes, fmt.Sprintf("%d:%s", n.ID, n.CPUs))
		distances = append(distances, strings.ReplaceAll(strings.Trim(fmt.Sprint(n.Distance), "[]"), " ", ","))
		bytes = append(bytes, strconv.FormatUint(n.Bytes>>10, 10))
	}
	return map[string]string{
		"online": m.Online.String(), "cores": objects(m.Cores), "packages": objects(m.Packages),
		"caches": objects(m.L3s),
		"nodes":  strings.Join(nodes, " "), "distances": strings.Join(distances, " "), "memory": strings.Join(bytes,
			" "),
		"slower": m.Slower.String(), "allowed": m.Allowed.String(), "mems": m.AllowedMems.String(),
		"quota": fmt.Sprint(m.Quota), "load": fmt.Sprint(m.Load), "limit": fmt.Sprint(m.MemoryLimit),
	}
}

// shows fails a test unless a machine has what some lines say. "note TEXT" is a
// note that contains TEXT; there are no others unless "notes" says so.
func shows(t *testing.T, m *topo.Machine, want string) {
	t.Helper()
	pic := picture(m)
	notes, more := 0, false
	for line := range strings.Lines(want) {
		what, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch what {
		case "":
		case "notes":
			more = true
		case "note":
			notes++
			require.True(t, slices.ContainsFunc(m.Notes, func(n string) bool { return strings.Contains(n, value) }),
				"no note has %q: %q", value, m.Notes)
		default:
			require.Contains(t, pic, what)
			require.Equal(t, value, pic[what], what)
		}
	}
	require.True(t, len(m.Notes) == notes || more && len(m.Notes) > notes, "%q", m.Notes)
}
