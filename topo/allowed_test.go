package topo_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"ibrun/topo"
	"ibrun/topo/hwloctest"
)

const (
	v1 = "proc/mounts = proc /proc proc rw 0 0\\ncgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 " +
		"0\\ncgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n"
	v2 = "proc/mounts = cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\nsys/fs/cgroup/cgroup.controllers = " +
		"cpuset cpu\n"
	root     = "sys/fs/cgroup/"
	v1Groups = "proc/self/cgroup = 3:cpuset:/batch/job1\\n2:cpu,cpuacct:/batch/job1\\n1:name=systemd:/\n"
)

// v1Memory is a group of the memory controller.
const v1Memory = "proc/mounts = cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\nproc/self/cgroup = 4:memory:/batch\n"

// twoGroups are restrictions of each kind for the machine two.
const twoGroups = v1 + v1Groups + `
	sys/fs/cgroup/cpuset/batch/job1/cpuset.cpus = 0-5
	sys/fs/cgroup/cpuset/batch/job1/cpuset.mems = 0-1
	sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_quota_us = 300000
	sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_period_us = 100000
	proc/self/status = Name:	x\nCpus_allowed:	f\nCpus_allowed_list:	0-3\nMems_allowed_list:	0-1
`

func TestAllowed(t *testing.T) {
	for _, e := range []example{
		{"all kinds", two + twoGroups, "allowed 0-3\nmems 0-1\nquota 3\n" + twoAll},
		{"affinity", two +
			"proc/self/status = Name: x\\nCpus_allowed:\tf0\\nCpus_allowed_list:\t4-7\\nMems_allowed_list:\t1",
			"allowed 4-7\nmems 1"},
		{"affinity beyond what is online", two + "proc/self/status = Cpus_allowed_list: 6-127", "allowed 6-7"},

		{"v1", two + v1 + v1Groups + root + "cpuset/batch/job1/cpuset.cpus = 1,5\n" + root +
			"cpuset/batch/job1/cpuset.mems = 0", "allowed 1,5\nmems 0"},
		{"v1 with affinity", two + v1 + v1Groups + root +
			"cpuset/batch/job1/cpuset.cpus = 1,5\nproc/self/status = Cpus_allowed_list: 5-7", "allowed 5"},
		{"v1 without a prefix, before there was proc/self/cgroup", two +
			"proc/self/cpuset = /prout\nproc/mounts = cpuset /dev/cpuset cgroup rw,relatime,cpuset,noprefix 0 " +
			"0\ndev/cpuset/prout/cpus = 0-1,4\ndev/cpuset/prout/mems = 1", "allowed 0-1,4\nmems 1"},
		{"before there were cgroups", two +
			"proc/self/cpuset = /a\nproc/mounts = none /dev/my\\040sets cpuset rw 0 0\ndev/my sets/a/cpus = 7",
			"allowed 7"},
		{"v1, no restriction", two + v1 + v1Groups + root + "cpuset/cpuset.cpus = 0-7", "allowed 0-7"},
		{"v1, a quota", two + v1 + v1Groups + root + "cpu,cpuacct/batch/job1/cpu.cfs_quota_us = 50000\n" + root +
			"cpu,cpuacct/batch/job1/cpu.cfs_period_us = 100000", "quota 0.5"},
		{"v1, no quota", two + v1 + v1Groups + root + "cpu,cpuacct/batch/job1/cpu.cfs_quota_us = -1\n" + root +
			"cpu,cpuacct/batch/job1/cpu.cfs_period_us = 100000", "quota 0"},

		{"v2", two + v2 + "proc/self/cgroup = 0::/user.slice/a:b\n" + root +
			"user.slice/a:b/cpuset.cpus.effective = 3\n" + root + "user.slice/a:b/cpuset.mems.effective = 1",
			"allowed 3\nmems 1"},
		{"v2, the least quota upwards", two + v2 + "proc/self/cgroup = 0::/a/b/c\n" + root +
			"a/cpu.max = 150000 100000\n" + root + "a/b/cpu.max = 400000 100000\n" + root +
			"a/b/c/cpu.max = max 100000", "quota 1.5"},
		{"v2, a quota that is none", two + v2 + "proc/self/cgroup = 0::/\n" + root + "cpu.max = 0 100000",
			"quota 0\nnote limit of CPU time"},
		{"v2 without proc/self/cgroup", two + v2 + "proc/self/cpuset = /batch/job1\n" + root +
			"batch/job1/cpuset.cpus.effective = 2,6\n" + root + "batch/job1/cpuset.mems.effective = 1",
			"allowed 2,6\nmems 1"},
		{"v1 without proc/self/cgroup", two + v1 + "proc/self/cpuset = /batch/job1\n" + root +
			"cpuset/batch/job1/cpuset.cpus = 1,5", "allowed 1,5"},
		{"a group but no mount", two + v1Groups + root + "cpuset/batch/job1/cpuset.cpus = 1,5", "allowed 0-7"},
		{"a mount but no group", two + v1 + root + "cpuset/cpuset.cpus = 1,5", "allowed 0-7"},
		{"a path that is too long", two + v2 + "proc/self/cgroup = 0::" + world(strings.Repeat("/a", 1<<20)),
			"allowed 0-7\nnote longer than a path can be"},
	} {
		e.compared(t)
	}
}

// TestAllowedAlone is of what hwloc does not read: several hierarchies at once,
// groups above ours, cpusets of v1 in effect, affinity in files.
func TestAllowedAlone(t *testing.T) {
	for _, e := range []example{
		{"affinity to nothing that is there", two +
			"proc/self/status = Cpus_allowed_list: 64-127\\nMems_allowed_list: 5",
			"allowed 0-7\nmems 0-1\nnote CPUs 64-127, of which there is none\n" +
				"note NUMA nodes 5, of which there is none"},
		{"affinity that is no list", two + "proc/self/status = Cpus_allowed_list: many",
			"allowed 0-7\nnote Cpus_allowed_list: \"many\""},
		{"v1, what is in effect", two + v1 + v1Groups + root + "cpuset/batch/job1/cpuset.cpus = 0-7\n" + root +
			"cpuset/batch/job1/cpuset.effective_cpus = 0-2", "allowed 0-2"},
		{"v1 in a container, the host's path", two + v1 + world(strings.ReplaceAll(v1Groups, "/batch/job1",
			"/docker/0123")) + root + "cpuset/cpuset.cpus = 2,3", "allowed 2-3"},
		{"v2, the group above has the controller", two + v2 + "proc/self/cgroup = 0::/a/b/c\n" + root +
			"a/b/c/cgroup.controllers = cpu\n" + root + "a/cpuset.cpus.effective = 2-5", "allowed 2-5"},
		{"v2 in a container, the host's path", two + v2 + "proc/self/cgroup = 0::/kubepods/pod1\n" + root +
			"cpuset.cpus.effective = 6", "allowed 6"},
		{"v2, a path without a slash", two + v2 + "proc/self/cgroup = 0::a\n" + root + "cpuset.cpus.effective = 6",
			"allowed 6"},
		{"v2, outside of its namespace", two + v2 + "proc/self/cgroup = 0::/../../other\n" + root +
			"cpuset.cpus.effective = 6", "allowed 6"},
		{"v2 in part, v1 in part", two +
			"proc/mounts = cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\\ncgroup /sys/fs/cgroup/cpuset cgroup " +
			"rw,cpuset 0 0\nproc/self/cgroup = 3:cpuset:/x\\n0::/y\n" +
			root + "cpuset/x/cpuset.cpus = 0-1\n" + root + "unified/y/cpuset.cpus.effective = 1-2", "allowed 1"},
		{"v2, the least memory upwards", two + v2 + "proc/self/cgroup = 0::/a/b/c\n" + root +
			"a/memory.max = 1073741824\n" + root + "a/b/memory.max = max\n" + root + "a/b/c/memory.max = 2147483648",
			"limit 1073741824"},
		{"v2, memory that is no number", two + v2 + "proc/self/cgroup = 0::/a\n" + root + "a/memory.max = much",
			"limit 0\nnote limit of memory \"much\""},
		{"v1, memory", two + v1Memory + root + "memory/batch/memory.limit_in_bytes = 536870912\n" + root +
			"memory/memory.limit_in_bytes = 9223372036854771712", "limit 536870912"},
		{"v1, no limit of memory", two + v1Memory + root + "memory/batch/memory.limit_in_bytes = 9223372036854771712",
			"limit 0"},
		{"groups that contradict each other", two +
			"proc/mounts = cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\\ncgroup /sys/fs/cgroup/cpuset cgroup " +
			"rw,cpuset 0 0\nproc/self/cgroup = 3:cpuset:/x\\n0::/y\n" +
			root + "cpuset/x/cpuset.cpus = 0-1\n" + root + "unified/y/cpuset.cpus.effective = 2-3",
			"allowed 2-3\nnote cpuset/x\" allows CPUs 0-1, of which there is none"},
	} {
		e.run(t)
	}
}

// TestForeign sees that a capture of another machine does not take what we may use.
func TestForeign(t *testing.T) {
	m := topo.Read(two.files())
	hwloctest.Valid(t, m)
	shows(t, m, "allowed 0-7\nmems 0-1\nquota 0")
}

// Kills for lack of memory are those of the process's own cgroup; above it only where
// it is not there, as in a container; of the node where no group counts.
func TestMemoryKills(t *testing.T) {
	const (
		events  = "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 0\n"
		control = "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"
		mounts1 = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
		mounts2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n"
	)
	for _, c := range []struct {
		name  string
		files map[string]string
		where string
		kills uint64
		ok    bool
	}{
		{"nothing", nil, "on this node", 0, false},
		{"v2", map[string]string{"proc/mounts": mounts2, "proc/self/cgroup": "0::/batch/job\n",
			"sys/fs/cgroup/batch/job/memory.events": events}, "cgroup /batch/job", 2, true},
		{"v1 beside an empty v2", map[string]string{"proc/mounts": mounts1, "proc/self/cgroup": "4:memory:/job\n0::/\n",
			"sys/fs/cgroup/memory/job/memory.oom_control": control}, "cgroup /job", 5, true},
		{"in a container", map[string]string{"proc/mounts": mounts1, "proc/self/cgroup": "4:memory:/docker/1\n",
			"sys/fs/cgroup/memory/memory.oom_control": control}, "cgroup /", 5, true},
		{"no controller", map[string]string{"proc/mounts": mounts2, "proc/self/cgroup": "0::/\n",
			"proc/vmstat": "nr_free_pages 1\noom_kill 9\n"}, "on this node", 9, true},
		{"an old kernel", map[string]string{"proc/mounts": mounts1, "proc/self/cgroup": "4:memory:/job\n",
			"sys/fs/cgroup/memory/job/memory.oom_control": "under_oom 0\n", "proc/vmstat": "nr_free_pages 1\n"},
			"on this node", 0, false},
		{"no number", map[string]string{"proc/vmstat": "oom_kill many\n"}, "on this node", 0, false},
	} {
		tree := fstest.MapFS{}
		for path, text := range c.files {
			tree[path] = &fstest.MapFile{Data: []byte(text)}
		}
		where, kills, ok := topo.MemoryKills(tree)
		require.Equal(t, c.where, where, c.name)
		require.Equal(t, c.kills, kills, c.name)
		require.Equal(t, c.ok, ok, c.name)
	}
}
