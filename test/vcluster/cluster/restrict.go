package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const cpusetV1 = "/sys/fs/cgroup/cpuset"

// Restrict limits a node to some CPUs and NUMA nodes, which are given as lists like 0-3,8. With cgroups of version 1 it
// moves the processes of the node to a new cpuset cgroup. With version 2 it sets the limits of the cgroup that the node
// already has. The limits also apply to processes that start later.
func (c *Cluster) Restrict(name, cpus, mems string) error {
	dir := filepath.Join(cgroupV2, filepath.Base(c.groups.freeze), name)
	if exists(cpusetV1 + "/cgroup.procs") {
		dir = filepath.Join(cpusetV1, filepath.Base(c.groups.freeze), name)
		c.groups.pin = filepath.Dir(dir)
	}
	if c.groups.freeze == "" || c.groups.pin == "" && !exists(filepath.Join(dir, "cpuset.cpus")) {
		return errors.New("no cpuset cgroup here")
	}
	if c.groups.pin != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // a child has at most what its parent has
			all, err := os.ReadFile(filepath.Join(cpusetV1, file))
			if err == nil {
				err = os.WriteFile(filepath.Join(c.groups.pin, file), all, 0)
			}
			if err != nil {
				return err
			}
		}
	}
	for file, list := range map[string]string{"cpuset.cpus": cpus, "cpuset.mems": mems} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(list), 0); err != nil {
			return fmt.Errorf("%s of %s: %w", file, name, err)
		}
	}
	procs, err := os.ReadFile(filepath.Join(c.groups.freeze, name, "cgroup.procs"))
	if err != nil {
		return err
	}
	for _, pid := range strings.Fields(string(procs)) {
		if n, err := strconv.Atoi(pid); err == nil && c.groups.pin != "" {
			// Ignore errors: the process may have ended since cgroup.procs was read.
			_ = os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(n)), 0)
		}
	}
	return nil
}
