package capture

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// What the kernel says of processors and memory, relative to the folder of a
// CPU, of a cache of it and of a NUMA node (Documentation/ABI/stable/
// sysfs-devices-system-cpu and sysfs-devices-node). topology/ppin, a serial
// number, is not among it.
const (
	ofMachine = `proc/cpuinfo proc/meminfo proc/mounts proc/stat proc/self/cgroup proc/self/cpuset
		sys/devices/system/cpu/online sys/devices/system/cpu/offline sys/devices/system/cpu/possible sys/devices/system/cpu/present
		sys/devices/system/node/online sys/devices/system/node/possible sys/devices/system/node/has_cpu sys/devices/system/node/has_memory`
	ofCPU = `online cpu_capacity cpufreq/cpuinfo_max_freq cpufreq/base_frequency
		topology/physical_package_id topology/die_id topology/cluster_id topology/core_id
		topology/core_siblings topology/core_siblings_list topology/thread_siblings topology/thread_siblings_list
		topology/package_cpus topology/package_cpus_list topology/die_cpus topology/die_cpus_list
		topology/cluster_cpus topology/cluster_cpus_list topology/core_cpus topology/core_cpus_list`
	ofCache = `id level type size shared_cpu_map shared_cpu_list
		coherency_line_size number_of_sets physical_line_partition ways_of_associativity`
	ofNode = `cpumap cpulist distance meminfo`
)

// mostCaches is how many caches a CPU may have; none has more than five.
const mostCaches = 10

// complete reads what topo passes over where it is clever: it asks one CPU of a
// core for all of them, for example. hwloc and later versions of topo can be
// given a capture that has all.
func (r *Recorder) complete() {
	ask := func(dir, files string) {
		for _, file := range strings.Fields(files) {
			_, _ = r.Open(path.Join(dir, file)) // no kernel has all of them
		}
	}
	ask(".", ofMachine)
	// The patterns are right, and of folders that are missing Glob says nothing.
	cpus, _ := fs.Glob(r, "sys/devices/system/cpu/cpu[0-9]*")
	for _, cpu := range cpus {
		ask(cpu, ofCPU)
		for i := range mostCaches {
			ask(fmt.Sprintf("%s/cache/index%d", cpu, i), ofCache)
		}
	}
	nodes, _ := fs.Glob(r, "sys/devices/system/node/node[0-9]*")
	for _, node := range nodes {
		ask(node, ofNode)
	}
}
