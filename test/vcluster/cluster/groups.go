package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// These paths are the mount points of cgroup hierarchies. If the machine has hierarchies of version 1, the package uses
// those, because the controllers are then not available in version 2.
const (
	freezerV1 = "/sys/fs/cgroup/freezer"
	cpuV1     = "/sys/fs/cgroup/cpuacct"
	cgroupV2  = "/sys/fs/cgroup"
)

// groups holds the paths of the cgroups of a cluster. In each of the directories freeze and count, every host has a
// cgroup. Freeze and CPU use them. If the hierarchies are not writable, both paths are empty, and Freeze sends SIGSTOP
// instead.
type groups struct {
	freeze string // directory of the cluster in the hierarchy that freezes
	count  string // directory in the one that counts
	pin    string // directory in the hierarchy that restricts CPUs, if Restrict made one
	v1     bool
}

func groupsOf(id string) groups {
	switch {
	case exists(freezerV1 + "/cgroup.procs"):
		g := groups{freeze: filepath.Join(freezerV1, id), v1: true}
		if exists(cpuV1 + "/cgroup.procs") {
			g.count = filepath.Join(cpuV1, id)
		}
		return g
	case exists(cgroupV2 + "/cgroup.controllers"):
		return groups{freeze: filepath.Join(cgroupV2, id), count: filepath.Join(cgroupV2, id)}
	}
	return groups{}
}

func makeGroups(id string) (groups, error) {
	g := groupsOf(id)
	if g.freeze == "" {
		return g, nil
	}
	if err := os.Mkdir(g.freeze, 0o755); err != nil {
		return groups{}, nil //nolint:nilerr // a read-only hierarchy: SIGSTOP does instead
	}
	if g.v1 && g.count != "" && os.Mkdir(g.count, 0o755) != nil {
		g.count = ""
	}
	return g, nil
}

// add makes a host's cgroups and moves a process into them.
func (g groups) add(name string, pid int) error {
	for _, dir := range g.dirs() {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return err
		}
	}
	return nil
}

func (g groups) dirs() []string {
	var dirs []string
	if g.freeze != "" {
		dirs = append(dirs, g.freeze)
	}
	if g.count != "" && g.count != g.freeze {
		dirs = append(dirs, g.count)
	}
	return dirs
}

// line returns the paths of the files cgroup.procs of a host, separated by spaces. It returns "" if the host has no
// cgroup.
func (g groups) line(name string) string {
	var files []string
	for _, dir := range g.dirs() {
		files = append(files, filepath.Join(dir, name, "cgroup.procs"))
	}
	return strings.Join(files, " ")
}

// set freezes or thaws a host and waits until the kernel reports the new state. After five seconds it returns an error.
func (g groups) set(name string, frozen bool) error {
	file, word, seen, want := "cgroup.freeze", "0", "cgroup.events", "frozen 0"
	if frozen {
		word, want = "1", "frozen 1"
	}
	if g.v1 {
		file, seen, word = "freezer.state", "freezer.state", "THAWED"
		if frozen {
			word = "FROZEN"
		}
		want = word
	}
	dir := filepath.Join(g.freeze, name)
	if err := os.WriteFile(filepath.Join(dir, file), []byte(word), 0); err != nil {
		return err
	}
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(dir, seen))
		if err != nil {
			return err
		}
		if strings.Contains(string(text), want) {
			return nil
		}
	}
	return fmt.Errorf("%s is not %q after 5s", filepath.Join(dir, seen), want)
}

// thaw thaws a host and ignores errors. It has no effect if the host is not frozen.
func (g groups) thaw(name string) {
	if g.freeze != "" {
		_ = g.set(name, false)
	}
}

// cpu returns the CPU time that a host's processes have used.
func (g groups) cpu(name string) (time.Duration, error) {
	if g.count == "" {
		return 0, errors.New("no cgroup here that counts CPU time")
	}
	if g.v1 {
		text, err := os.ReadFile(filepath.Join(g.count, name, "cpuacct.usage"))
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		return time.Duration(n), err
	}
	text, err := os.ReadFile(filepath.Join(g.count, name, "cpu.stat"))
	if err != nil {
		return 0, err
	}
	var usec int64
	if _, err := fmt.Sscanf(string(text), "usage_usec %d", &usec); err != nil {
		return 0, err
	}
	return time.Duration(usec) * time.Microsecond, nil
}

// remove kills the processes that are left in the cgroups of the cluster, and removes these cgroups.
func (g groups) remove() {
	dirs := g.dirs()
	if g.pin != "" {
		dirs = append(dirs, g.pin)
	}
	for _, dir := range dirs {
		for deadline := time.Now().Add(stopDeadline); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
			names, err := os.ReadDir(dir)
			if err != nil {
				break
			}
			for _, name := range names {
				if name.IsDir() {
					g.thaw(name.Name())
					killListed(filepath.Join(dir, name.Name(), "cgroup.procs"))
					_ = os.Remove(filepath.Join(dir, name.Name()))
				}
			}
			if os.Remove(dir) == nil {
				break
			}
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
