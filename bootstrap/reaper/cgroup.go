package reaper

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/internal/proc"
)

// prefix begins the names of groups.
const prefix = "ibrun-"

// mostText bounds what is read of a file of the kernel's, in bytes.
const mostText = 1 << 20

// Group is a control group of one job on one node.
type Group struct {
	path string
	dir  *os.File // in which processes are born; nil if it was found
}

// name returns the name of the control group of a job on a node.
func name(job string, node uint32) string {
	return prefix + job + "-" + strconv.FormatUint(uint64(node), 10)
}

// MakeGroup makes the control group of a job on a node, as a child of the control group of this process. It returns
// nil if this process has no permission to make one. The job then runs without a group.
func MakeGroup(job string, node uint32) *Group {
	_, own := place("/proc/self")
	if own == "" || job == "" {
		return nil
	}
	path := filepath.Join(own, name(job, node))
	if unix.Mkdir(path, 0o755) != nil {
		return nil
	}
	dir, err := os.Open(path)
	if err == nil && unix.Access(filepath.Join(path, "cgroup.kill"), unix.W_OK) == nil {
		return &Group{path, dir}
	}
	if err == nil {
		dir.Close()
	}
	_ = unix.Rmdir(path)
	return nil
}

// FindGroup returns the group that another process has made for a job on a node. It searches the whole cgroup file
// system that this process sees, and returns nil if there is no such group.
func FindGroup(job string, node uint32) (g *Group) {
	root, _ := place("/proc/self")
	if root == "" {
		return nil
	}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
		case d.Name() == name(job, node):
			g = &Group{path: path}
			return filepath.SkipAll
		}
		return nil // what ends meanwhile is not it
	})
	return g
}

// unused is the age from which a group that no process is in is nobody's.
const unused = time.Minute

// tidy removes the control groups that killed agents have left. These are the groups of jobs directly below the group of
// this process that contain no process and have existed for at least age.
func tidy(age time.Duration) {
	if _, own := place("/proc/self"); own != "" {
		tidyBelow(own, age, 0)
	}
}

// Tidy does the same around this group, which has been removed. Without a group there can be none.
func (g *Group) Tidy() {
	if g != nil {
		tidyBelow(filepath.Dir(g.path), unused, mostTidied)
	}
}

// mostTidied is how many groups an agent looks at. Where those of many nodes share a machine, each
// would look at the groups of all others.
const mostTidied = 8

// tidyBelow looks at so many groups at most; 0: at all.
func tidyBelow(dir string, age time.Duration, most int) {
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	looked := 0
	for _, name := range names {
		path := filepath.Join(dir, name)
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if looked++; most > 0 && looked > most {
			return
		}
		if made, err := os.Stat(path); err == nil && time.Since(made.ModTime()) >= age {
			_ = unix.Rmdir(path) // it fails for one that is in use
		}
	}
}

// Dir is the folder in which a process is to be born; nil if there is none.
func (g *Group) Dir() *os.File {
	if g == nil {
		return nil
	}
	return g.dir
}

// Processes are the numbers of all processes of the group, in this process's namespace.
func (g *Group) Processes() (pids []int) {
	if g == nil {
		return nil
	}
	text, _ := proc.Read(filepath.Join(g.path, "cgroup.procs"), mostText)
	for word := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Kill kills all processes of the group, and what they fork meanwhile. It does not wait for their
// ends.
func (g *Group) Kill() {
	if g != nil {
		_ = os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0)
	}
}

// removeRound is the time between two attempts to remove a group.
const removeRound = 2 * time.Millisecond

// Remove removes the group when its processes have ended, and reports whether they have in time.
func (g *Group) Remove(most time.Duration) bool {
	if g == nil {
		return true
	}
	if g.dir != nil {
		g.dir.Close()
	}
	for begin := time.Now(); ; time.Sleep(removeRound) {
		if err := unix.Rmdir(g.path); err != unix.EBUSY {
			return true
		}
		if time.Since(begin) >= most {
			return false
		}
	}
}

// place is where the hierarchy of version 2 is mounted, and the group of a process in it. Both are
// empty if it is not there, or if the group is outside of what is mounted.
func place(process string) (root, own string) {
	members, err := proc.Read(process+"/cgroup", mostText)
	if err != nil {
		return "", ""
	}
	path, found := "", false
	for line := range strings.Lines(string(members)) {
		if path, found = strings.CutPrefix(strings.TrimSpace(line), "0::"); found {
			break
		}
	}
	mounts, err := proc.Read(process+"/mountinfo", mostText)
	if err != nil || !found {
		return "", ""
	}
	for line := range strings.Lines(string(mounts)) {
		words := strings.Fields(line)
		before, after, _ := strings.Cut(line, " - ")
		if len(words) < 6 || !strings.HasPrefix(after, "cgroup2 ") || strings.Contains(before, `\`) {
			continue
		}
		below, inside := strings.CutPrefix(path+"/", strings.TrimSuffix(words[3], "/")+"/")
		if inside && !strings.Contains(below, "..") {
			return words[4], filepath.Join(words[4], below)
		}
	}
	return "", ""
}
