package topo

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// MemoryKills counts the processes that the kernel has killed for lack of memory: those
// of this process's cgroup, which where names, or those of the whole node if no
// cgroup counts them. The kernel counts first and kills then. ok is false where
// nothing is counted, as before Linux 4.13.
func MemoryKills(fsys fs.FS) (where string, kills uint64, ok bool) {
	r := &reader{fsys: fsys}
	for _, g := range r.groups() {
		file := map[groupKind]string{unified: "memory.events", legacyMemory: "memory.oom_control"}[g.kind]
		if file == "" {
			continue
		}
		for dir := range g.up {
			if n, ok := r.count(path.Join(dir, file)); ok {
				return "cgroup " + path.Join("/", strings.TrimPrefix(dir, strings.TrimPrefix(g.mount, "/"))), n, true
			}
		}
	}
	kills, ok = r.count("proc/vmstat")
	return "on this node", kills, ok
}

// count is the number behind oom_kill in a file of such lines.
func (r *reader) count(file string) (n uint64, ok bool) {
	text, _ := r.text(file)
	number, ok := field(text, "oom_kill", " ")
	n, err := strconv.ParseUint(number, 10, 64)
	return n, ok && err == nil
}
