package topo

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"ibrun/internal/cpuset"
)

// groupKind is what a hierarchy of cgroups is about.
type groupKind uint8

const (
	noGroup      groupKind = iota
	unified                // v2: all controllers
	legacySet              // v1 with cpuset
	legacyTime             // v1 with cpu
	legacyMemory           // v1 with memory
	groupKinds
)

// group is where this process is in a hierarchy.
type group struct {
	kind  groupKind
	mount string // from the root of the tree
	path  string // below the mount, with a slash before it
}

// dir is the group's folder.
func (g group) dir() string { return strings.TrimPrefix(path.Join("/", g.mount, g.path), "/") }

// mostPath is PATH_MAX. A longer path cannot be a group, and to walk it would
// take long.
const mostPath = 4096

// groups are the hierarchies that are mounted and that this process is in. The
// first mount of a kind is used.
func (r *reader) groups() []group {
	var groups []group
	members, listed := r.text("proc/self/cgroup")
	mounts := r.mounts()
	for kind, mount := range mounts {
		if mount == "" {
			continue
		}
		at, ok := membership(members, groupKind(kind))
		if !ok && (groupKind(kind) == legacySet || groupKind(kind) == unified && !listed && mounts[legacySet] == "") {
			// the path of cpusets alone: older than cgroups, and there where their list is hidden
			at, ok = r.text("proc/self/cpuset")
		}
		if !ok {
			continue
		}
		// A path may begin with /.. where the process is outside of its
		// namespace's root; that much is cut off.
		g := group{groupKind(kind), mount, path.Clean("/" + at)}
		if len(g.dir()) > mostPath {
			r.note("the path of a cgroup is longer than a path can be: passed over")
			continue
		}
		groups = append(groups, g)
	}
	return groups
}

// controllers is the controller that identifies each kind of v1 hierarchy. It is empty for the other kinds.
var controllers = [groupKinds]string{legacySet: "cpuset", legacyTime: "cpu", legacyMemory: "memory"}

// mounts are the folders where hierarchies are mounted, by kind, from proc/mounts:
// "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0".
func (r *reader) mounts() (mounts [groupKinds]string) {
	text, _ := r.text("proc/mounts")
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 4 {
			continue
		}
		for kind, controller := range controllers {
			var is bool
			switch words[2] {
			case "cgroup2":
				is = groupKind(kind) == unified
			case "cpuset": // a mount of the cpuset file system, which is older than cgroups
				is = groupKind(kind) == legacySet
			case "cgroup":
				is = controller != "" && slices.Contains(strings.Split(words[3], ","), controller)
			}
			if is && mounts[kind] == "" {
				mounts[kind] = unescape(words[1])
			}
		}
	}
	return mounts
}

// unescape undoes how procfs writes white space in paths: \040.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace

// membership is the path of the process's group in a hierarchy, from the text of
// proc/self/cgroup. Its lines are like "3:cpuset:/batch", for v2 "0::/batch".
func membership(text string, kind groupKind) (string, bool) {
	for line := range strings.Lines(text) {
		words := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(words) == 3 && (kind != unified || words[0] == "0") &&
			slices.Contains(strings.Split(words[1], ","), controllers[kind]) {
			return words[2], true
		}
	}
	return "", false
}

// up yields a group's folder and those above it, up to the mount. In a container
// the path may be that of the host, of which the mount is the end: then only
// the mount is there.
func (g group) up(yield func(dir string) bool) {
	for {
		if !yield(g.dir()) || g.path == "/" {
			return
		}
		g.path = path.Dir(g.path)
	}
}

// nearest is the list of the lowest group that has one of some files, the first
// that it has. Groups without it are bound by those above.
func (r *reader) nearest(g group, files ...string) cpuset.Set {
	for dir := range g.up {
		for _, file := range files {
			if s, ok := r.list(path.Join(dir, file)); ok && !s.Empty() {
				return s
			}
		}
	}
	return cpuset.Set{}
}

// quota is the least time that a group and those above it leave, in CPUs.
func (r *reader) quota(g group, of func(dir string) float64) float64 {
	least := 0.0
	for dir := range g.up {
		least = tighter(least, of(dir))
	}
	return least
}

// max is a group's cpu.max: "50000 100000", the quota in each period, in
// microseconds, or "max 100000".
func (r *reader) max(dir string) float64 {
	text, ok := r.text(path.Join(dir, "cpu.max"))
	quota, period, _ := strings.Cut(text, " ")
	if !ok || quota == "max" {
		return 0
	}
	return r.share(dir, quota, period)
}

// cfs is what cpu.max was before: a file each, and -1 for no limit.
func (r *reader) cfs(dir string) float64 {
	quota, ok := r.text(path.Join(dir, "cpu.cfs_quota_us"))
	period, ok2 := r.text(path.Join(dir, "cpu.cfs_period_us"))
	if !ok || !ok2 || quota == "-1" {
		return 0
	}
	return r.share(dir, quota, period)
}

func (r *reader) share(dir, quota, period string) float64 {
	q, err := strconv.ParseUint(quota, 10, 53)
	p, err2 := strconv.ParseUint(period, 10, 53)
	if err != nil || err2 != nil || q == 0 || p == 0 {
		r.note("%.80q has a limit of CPU time %.20q in %.20q us: passed over", dir, quota, period)
		return 0
	}
	return float64(q) / float64(p)
}

// bytes is the least memory that a group and those above it leave, by files
// like memory.max. "max" is no limit, and so is more than any machine has, as
// v1 writes it.
func (r *reader) bytes(g group, file string) (least uint64) {
	for dir := range g.up {
		text, ok := r.text(path.Join(dir, file))
		if !ok || text == "" || text == "max" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			r.note("%.80q has a limit of memory %.20q: passed over", dir, text)
			continue
		}
		if n < mostBytes {
			least = tighter(least, n)
		}
	}
	return least
}

// mostBytes is more memory than a machine has: 2^60.
const mostBytes = 1 << 60

// tighter is the lower of two limits, of which 0 is none.
func tighter[T float64 | uint64](a, b T) T {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}
