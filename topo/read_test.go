package topo_test

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"ibrun/topo"
	"ibrun/topo/hwloctest"
)

// two is a machine of two packages, each with two cores of two threads.
const two world = `
online 0-7
core 0 0,4
core 1 1,5
core 0 2,6
core 1 3,7
package 0 0-1,4-5
package 1 2-3,6-7
cache 1 Data 0,4
cache 1 Data 1,5
cache 1 Data 2,6
cache 1 Data 3,7
cache 3 Unified 0-1,4-5
cache 3 Unified 2-3,6-7
node 0 0-1,4-5 10,21
node 1 2-3,6-7 21,10
proc/loadavg = 1.25 2 3 1/100 4242
`

const (
	twoCores    = "cores 0:0,4 1:1,5 0:2,6 1:3,7\n"
	twoPackages = "packages 0:0-1,4-5 1:2-3,6-7\n"
	twoNodes    = "nodes 0:0-1,4-5 1:2-3,6-7\n"
	twoCaches   = "caches -1:0-1,4-5 -1:2-3,6-7\n"
	twoAll      = "online 0-7\n" + twoCores + twoPackages + twoNodes + twoCaches
)

type example struct {
	name  string
	world world
	want  string
}

func (e example) run(t *testing.T) {
	t.Run(e.name, func(t *testing.T) {
		m := topo.Read(e.world.files())
		hwloctest.Valid(t, m)
		shows(t, m, e.want)
	})
}

// compared runs an example of which hwloc must say the same.
func (e example) compared(t *testing.T) {
	e.run(t)
	if compare == nil {
		return
	}
	t.Run(e.name+", hwloc", func(t *testing.T) {
		dir := e.world.unfold(t)
		m := topo.Read(os.DirFS(dir))
		shows(t, m, e.want)
		compare(t, m, dir)
	})
}

// compare holds what is read against hwloc, if the tests have the build tag cluster.
var compare func(testing.TB, *topo.Machine, string)

func TestRead(t *testing.T) {
	for _, e := range []example{
		{"two packages", two, twoAll + `
			distances 10,21 21,10
			memory 1024 1024
			allowed 0-7
			mems 0-1
			load 1.25
			quota 0
			slower `},
		{"masks of old kernels, with a NUL behind", `
			core 0 0x00000000,00000101
			core 0 0x00000000,00000002
			package 3 0x103
			sys/devices/system/cpu/cpu0/cache/index1/level = 2
			sys/devices/system/cpu/cpu0/cache/index1/shared_cpu_map = 00000103
			node 0 -
			sys/devices/system/node/node0/cpumap = 00000103
			sys/devices/system/node/online = 0\n` + "\x00",
			"online 0-1,8\ncores 0:0,8 0:1\npackages 3:0-1,8\nnodes 0:0-1,8\ncaches -1:0-1,8"},
		{"the same core_id in dies of a package", `
			core 0 0
			core 0 1
			core 0 2
			core 0 3
			each 0-1 topology/die_id 0
			each 2-3 topology/die_id 1
			package 0 0-3`,
			"cores 0:0 0:1 0:2 0:3\npackages 0:0-3"},
		{"packages without numbers", `
			core 0 0
			core 0 1
			package -1 0-1`,
			"packages -1:0-1"},
		{"high numbers", `
			online 120,4000
			core 4096 120
			core 9 4000
			package 36 120,4000`,
			"online 120,4000\ncores 4096:120 9:4000\npackages 36:120,4000\nnodes 0:120,4000"},

		{"offline by the list", two + "online 0-3,5-7",
			"online 0-3,5-7\ncores 0:0 1:1,5 0:2,6 1:3,7\npackages 0:0-1,5 1:2-3,6-7\nnodes 0:0-1,5 " +
				"1:2-3,6-7\ncaches -1:0-1,5 -1:2-3,6-7"},
		{"offline by the CPU's file", two + "- " + cpuDir + "online\neach 1,3,5 online 0\neach 2 online 1",
			"online 0,2,4,6-7\ncores 0:0,4 0:2,6 1:7\npackages 0:0,4 1:2,6-7\ncaches -1:0,4 -1:2,6-7"},
		{"offline as the folder is missing", two + "- " + cpuDir + "cpu5\n- " + cpuDir + "online\n- " + cpuDir +
			"cpu4/topology\ncore 0 0",
			"online 0-3,6-7\ncores 0:0 1:1 0:2,6 1:3,7\nnote CPUs 4 have no topology"},
		{"a whole package is offline", two + "online 2,3",
			"online 2-3\ncores 0:2 1:3\npackages 1:2-3\nnodes 0: 1:2-3\ncaches -1:2-3\nmems 0-1"},
		{"one core of a cache is left", two + "online 0,2,3", "cores 0:0 0:2 1:3\ncaches -1:0 -1:2-3"},
		{"online without a folder", two + "online 0-9", twoAll + "note names CPUs that have no folder"},

		{"NUMA nodes in a package", `
			core 0 0
			core 1 1
			core 2 2
			core 3 3
			package 0 0-3
			node 0 0,2
			node 1 1,3`,
			"cores 0:0 2:2 1:1 3:3\npackages 0:0-3\nnodes 0:0,2 1:1,3"},
		{"packages in a NUMA node", `
			core 0 0
			core 0 1
			core 0 2
			core 0 3
			package 0 0
			package 1 1
			package 2 2
			package 3 3
			node 0 0,2
			node 1 1,3`,
			"cores 0:0 0:2 0:1 0:3\npackages 0:0 2:2 1:1 3:3\nnodes 0:0,2 1:1,3"},
		{"caches that hold NUMA nodes", `
			core 0 0
			core 1 1
			core 2 2
			core 3 3
			package 0 0-3
			cache 3 Unified 0,2
			cache 3 Unified 1,3
			node 0 0
			node 1 1
			node 2 2
			node 3 3`,
			"cores 0:0 2:2 1:1 3:3\ncaches -1:0,2 -1:1,3\nnodes 0:0 1:1 2:2 3:3"},
		{"memory without CPUs", two +
			"node 4 - 30,30,10\nnode 0 0-1,4-5 10,21,30\nnode 1 2-3,6-7 21,10,30\nsys/devices/system/node/online = " +
			"0-1,4",
			"nodes 0:0-1,4-5 1:2-3,6-7 4:\ndistances 10,21,30 21,10,30 30,30,10\nmems 0-1,4"},
		{"a node that is offline", two + "sys/devices/system/node/online = 1\nnode 1 0-7 10",
			"nodes 1:0-7\ndistances 10\nmems 1\n" + twoCores},
		{"columns of a node without a folder", two +
			"sys/devices/system/node/online = 0-2\nnode 0 0-1,4-5 10,21,30\nnode 1 2-3,6-7 21,10,30",
			"nodes 0:0-1,4-5 1:2-3,6-7\ndistances 10,21 21,10"},
		{"a kernel without NUMA", two + "- sys/devices/system/node\nproc/meminfo = MemTotal:  2048 kB\\nMemFree: 1 kB",
			"nodes 0:0-7\nmemory 2048\ndistances \nmems 0\n" + twoCores},

		{"the second level, where it is the last that is shared", `
			core 0 0
			core 1 1
			core 2 2
			core 3 3
			package 0 0-3
			cache 1 Instruction 0-3
			cache 2 Unified 0-1
			cache 2 Unified 2-3`,
			"caches -1:0-1 -1:2-3"},
		{"caches with numbers, a fourth level", two +
			"cache 4 Unified 0-7\neach 0,1,4,5 cache/index1/id 0\neach 2,3,6,7 cache/index1/id 8",
			"caches 0:0-1,4-5 8:2-3,6-7\n" + twoCores},
		{"caches of one core each", `
			core 0 0-1
			core 1 2-3
			package 0 0-3
			cache 3 Unified 0-1
			cache 3 Unified 2-3`,
			"caches "},
		{"instructions", `
			core 0 0
			core 1 1
			package 0 0-1
			cache 1 Data 0
			cache 1 Data 1
			cache 2 Instruction 0-1`,
			"caches "},
		{"cores without a third level beside such with one", `
			core 0 0
			core 1 1
			core 2 2
			core 3 3
			package 0 0-3
			cache 2 Unified 0
			cache 3 Unified 0-1
			cache 2 Unified 2-3`,
			"caches -1:0-1 -1:2-3"},

		{"cores of AMD's compute units", `
			core 0 0-1
			core 2 2-3
			each 1 topology/core_id 1
			each 3 topology/core_id 3
			proc/hwloc-nofile-info = Architecture: x86_64
			package 0 0-3
			proc/cpuinfo = processor : 0\nvendor_id : AuthenticAMD\ncpu family : 21\nmodel : 1\n\nprocessor : 1`,
			"cores 0:0 1:1 2:2 3:3"},
		{"compute units that newer kernels take for cores", `
			core 0 0-1
			core 1 2-3
			package 0 0-3
			proc/cpuinfo = processor : 0\nvendor_id : AuthenticAMD\ncpu family : 21\nmodel : 1\n\nprocessor : 1`,
			"cores 0:0-1 1:2-3"},
		{"others' siblings with a core_id each", `
			core 0 0-1
			each 1 topology/core_id 1
			package 0 0-1
			proc/cpuinfo = processor : 0\nvendor_id : AuthenticAMD\ncpu family : 23\n`,
			"cores 0:0-1"},
	} {
		e.compared(t)
	}
}

func TestHybrid(t *testing.T) {
	for _, e := range []example{
		{"as Intel names them", two +
			"sys/devices/cpu_core/cpus = 0-1,4-5\nsys/devices/cpu_atom/cpus = 2,6\nsys/devices/cpu_lowpower/cpus = 3,7",
			"slower 2-3,6-7"},
		{"one kind alone", two + "sys/devices/cpu_core/cpus = 0-7", "slower "},
		{"the fast ones are offline", two +
			"online 2-3,6-7\nsys/devices/cpu_core/cpus = 0-1,4-5\nsys/devices/cpu_atom/cpus = 2-3,6-7", "slower "},
		{"capacity", two + "each 0,2,3 cpu_capacity 1024\neach 1 cpu_capacity 446", "slower 1,5"},
		{"capacity before frequency", two +
			"each 0-2 cpu_capacity 1024\neach 3 cpu_capacity 512\neach 0 cpufreq/cpuinfo_max_freq 3300000\neach 1-3 " +
			"cpufreq/cpuinfo_max_freq 4900000", "slower 3,7"},
		{"the same capacity, another frequency", two +
			"each 0-3 cpu_capacity 1024\neach 0-2 cpufreq/cpuinfo_max_freq 4900000\neach 3 cpufreq/cpuinfo_max_freq " +
			"3300000", "slower 3,7"},
		{"frequency", two + "each 0-2 cpufreq/cpuinfo_max_freq 4900000\neach 3 cpufreq/cpuinfo_max_freq 3300000",
			"slower 3,7"},
		{"favoured cores", two + "each 0,2,3 cpufreq/cpuinfo_max_freq 3500000\neach 1 cpufreq/cpuinfo_max_freq 4000000",
			"slower "},
		{"a core that says nothing", two + "each 0-2 cpufreq/cpuinfo_max_freq 4900000", "slower "},
		{"nonsense", two + "each 0-3 cpu_capacity 9\neach 0 cpu_capacity lots", "slower \nnote which is no number"},
		{"less than nothing", two + "each 0-3 cpu_capacity 9\neach 0 cpu_capacity -5", "slower "},
	} {
		e.run(t)
	}
}

// TestNoSysfs is of machines of which sysfs says nothing.
func TestNoSysfs(t *testing.T) {
	const flat = "caches \npackages -1:"
	for _, e := range []example{
		{"cpuinfo",
			"proc/cpuinfo = processor\t: 0\\nflags : a\\n\\nprocessor\t: 2\nproc/stat = cpu 1\\ncpu0 1\nproc/meminfo " +
				"= MemTotal: 9 kB",
			flat +
				"0,2\ncores -1:0 -1:2\nnodes 0:0,2\nmemory 9\nload -1\nnote taken as one flat node; its CPUs are " +
				"from proc/cpuinfo"},
		{"cpuinfo of s390",
			"proc/cpuinfo = vendor_id : IBM/S390\\n# processors : 2\\nprocessor 0: version = FF\\nprocessor 1: " +
				"version = FF", flat + "0-1\nnote from proc/cpuinfo"},
		{"stat", "proc/cpuinfo = Processor : ARM\nproc/stat = cpu  1 2 3\\ncpu0 1 2\\ncpu3 1 2\\nintr 5", flat +
			"0,3\nnote from proc/stat"},
		{"status", "proc/self/status = Name:\tx\\nCpus_allowed_list:\t4-5", flat +
			"4-5\nallowed 4-5\nnote from proc/self/status"},
		{"nothing at all", "", flat + "0\ncores -1:0\nnodes 0:0\nmemory 0\nallowed 0\nmems 0\nnote so there is one"},
		{"folders that hold nothing", "cpu 0-2", flat +
			"0-2\ncores -1:0 -1:1 -1:2\nnote cpu*/topology says nothing of cores\nnote are in no package"},
	} {
		e.run(t)
	}
	m := topo.Read(world("proc/self/status = Cpus_allowed_list: 0-65535").files())
	require.Equal(t, "0-8191", m.Online.String(), "Linux supports at most 8192 CPUs")
}

// TestContradictions is of machines that cannot be: as little as possible is lost.
func TestContradictions(t *testing.T) {
	for _, e := range []example{
		{"nothing that is there is online", two + "online 8-9", twoAll + "note names no CPU that has a folder"},
		{"packages that overlap", two + "package 1 0-7\npackage 0 0-1,4-5\neach 2-3,6-7 topology/package_cpus_list 0-7",
			twoAll + "note package of CPU 2 is said to hold CPUs of another one"},
		{"a package that does not hold its CPU", two + "each 0 topology/package_cpus_list 1,4-5", twoAll +
			"note package of CPU 0 is said to be that of CPUs 1,4-5 alone"},
		{"no package for some", two + "each 2-3,6-7 topology/package_cpus_list 0-1",
			"packages 0:0-1,4-5 -1:2-3,6-7\nnote CPUs 2-3,6-7 are in no package\nnotes"},
		{"cores that overlap", two + "each 1 topology/core_cpus_list 1,4",
			"cores 0:0,4 1:1 1:5 0:2,6 1:3,7\nnote core of CPU 1 is said to hold CPUs of another one\nnotes"},
		{"a core that does not hold its CPU", two +
			"each 0 topology/core_cpus_list 4\neach 4 topology/core_cpus_list 4",
			"cores 0:0 1:1,5 0:4 0:2,6 1:3,7\nnote core of CPU 0 is said to be that of CPUs 4 alone\nnote"},
		{"a core that says nothing of its CPUs", two + "- " + cpuDir + "cpu0/topology/core_cpus_list\n- " + cpuDir +
			"cpu4/topology/core_cpus_list", "cores 0:0 1:1,5 0:4 0:2,6 1:3,7\nnote cpu0/topology\nnote cpu4/topology"},
		{"a core in two packages", two + "core 0 0,2\ncore 0 4\ncore 0 6",
			"cores 0:0 1:1,5 0:4 -1:2 1:3,7 0:6\nnote core of CPU 0 reaches into another package"},
		{"a core in two NUMA nodes", two + "package 0 0-7\nnode 0 0-3\nnode 1 4-7\n",
			"packages 0:0-7\nnodes 0:0-3 1:4-7\nnotes"},
		{"a core of all", two + "each 0 topology/core_cpus_list 0-65535",
			"cores 0:0-1,4-5 -1:2-3,6-7\nnote core of CPU 0 reaches into another package"},
		{"a cache in two packages", two + "- " + cpuDir + "cpu0/cache\n- " + cpuDir + "cpu2/cache\ncache 3 Unified 0,2",
			twoCores + twoPackages + "caches \nnotes"},
		{"a cache with half a core", two + "each 0 cache/index1/shared_cpu_list 0-1", twoCores +
			"caches -1:2-3,6-7\nnotes"},
		{"a NUMA node with parts of packages", two + "node 0 0-2,4-6\nnode 1 3,7",
			"packages -1:0-7\nnodes 0:0-2,4-6 1:3,7\nnote NUMA node 0 holds parts of packages\nnotes"},
		{"NUMA nodes that overlap", two + "node 1 0-7 21,10", twoAll + "note node1/cpulist holds CPUs of another node"},
		{"CPUs in no NUMA node", two + "node 1 3,7 21,10", twoAll + "note CPUs 2,6 are in no NUMA node"},
		{"a package in no NUMA node", two + "- sys/devices/system/node/node1\nnode 0 0-1,4-5 10",
			"nodes 0:0-7\nnote CPUs 2-3,6-7 are in no NUMA node"},
		{"no CPUs in any NUMA node", two + "node 0 - 10,21\nnode 1 - 21,10",
			"nodes 0:0-7 1:\nnote CPUs 0-7 are in no NUMA node"},
		{"a short row of distances", two + "node 0 0-1,4-5 10", "distances  21,10\nnote 1 numbers for 2 nodes"},
		{"a wrong distance", two + "node 0 0-1,4-5 10,far", "distances  21,10\nnote \"far\", which is no distance"},
		{"wrong memory", two + "sys/devices/system/node/node0/meminfo = Node 0 MemTotal: 99999999999999999999 kB",
			"memory 0 1024\nnote MemTotal"},
		{"lists that are none", two +
			"online 0-\nsys/devices/system/node/online = x\neach 0 topology/core_cpus_list 0,",
			"note online: \"0-\"\nnote \"x\"\nnote \"0,\"\n" + twoCores},
		{"a list of a megabyte", two + "online " + long, twoAll + "note is longer than a set of CPUs can be"},
		{"a folder for a file", two + "- " + cpuDir + "cpu0/topology/core_id\n" + cpuDir +
			"cpu0/topology/core_id/deep = 1", "cores -1:0,4 1:1,5 0:2,6 1:3,7"},
		{"folders with odd names", two + "cpu 9000\n" + cpuDir + "cpu07/online = 1\n" + cpuDir + "cpu-1/online = 1\n" +
			cpuDir + "cpufreq/boost = 1", twoAll + "note cpu9000 is beyond what any kernel has"},
		{"nonsense for a load", two + "proc/loadavg = NaN", "load -1"},
		{"a load below nothing", two + "proc/loadavg = -1 0 0", "load -1"},
	} {
		e.run(t)
	}
}

var long world = func() world {
	b := make([]byte, 0, 1<<20)
	for len(b) < 1<<20 {
		b = append(b, "0-65535,"...)
	}
	return world(b)
}()

func FuzzRead(f *testing.F) {
	for _, more := range []string{"", "online 0-3", "- proc", "package 1 0-7", "core 0 0-65535", "node 0 0-2,6",
		"cache 3 Unified 0-7", "- " + cpuDir + "cpu0/topology", twoGroups} {
		f.Add(true, more)
		f.Add(false, more)
	}
	f.Fuzz(func(t *testing.T, whole bool, lines string) {
		w := world(lines)
		if whole {
			w = two + twoGroups + world(lines)
		}
		hwloctest.Valid(t, topo.Read(w.files()))
	})
}

// TestWrongFiles breaks each file of a machine in some ways.
func TestWrongFiles(t *testing.T) {
	files := (two + twoGroups).files()
	for path, file := range files {
		good := file.Data
		for _, bad := range []string{"", "-1", "5", "0-3", "99999999999999999999", "x", string(good[:len(good)/2])} {
			files[path] = &fstest.MapFile{Data: []byte(bad)}
			hwloctest.Valid(t, topo.Read(files))
		}
		delete(files, path)
		hwloctest.Valid(t, topo.Read(files))
		files[path] = file
	}
}
