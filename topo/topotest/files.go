package topotest

import (
	"fmt"
	"strings"
	"testing/fstest"

	"ibrun/internal/cpuset"
)

// Files is the tree that the machine's kernel shows: sys and proc, with the
// symbolic links that sysfs has. It panics if Check does not like the
// description. Formats are those of the kernel's Documentation/ABI and
// Documentation/admin-guide/cputopology.rst.
func (m Machine) Files() fstest.MapFS {
	l := m.Layout()
	m = m.filled()
	t := &tree{files: fstest.MapFS{}, width: l.Present.Last()/32 + 1}
	t.cpus(m, l)
	t.nodes(m, l)
	t.processes(m, l)
	t.cgroups(m, l)
	t.devices(m, l)
	return t.files
}

const cpuDir = "sys/devices/system/cpu/"

func (t *tree) cpus(m Machine, l Layout) {
	possible := cpuset.Span(0, l.Present.Last())
	t.list(cpuDir+"possible", possible)
	t.list(cpuDir+"present", l.Present)
	t.list(cpuDir+"online", l.Online)
	t.list(cpuDir+"offline", possible.Without(l.Online))
	t.text(cpuDir+"kernel_max", "%d", 2*Most-1) // CPUs and holes
	var fast, slow cpuset.Set
	for _, c := range l.cpus {
		dir := fmt.Sprintf("%scpu%d/", cpuDir, c.number)
		online := l.Online.Has(c.number)
		if c.number > 0 || !online { // the first CPU of most machines cannot be switched off
			t.text(dir+"online", "%d", map[bool]int{true: 1}[online])
		}
		if !online {
			continue // the kernel takes away all that it says of an offline CPU
		}
		t.topology(dir+"topology/", m, c)
		t.caches(dir+"cache/", m, c)
		if m.SlowPerPackage > 0 {
			t.speed(dir, c.slow)
		}
		if c.slow {
			slow.Add(c.number)
		} else {
			fast.Add(c.number)
		}
	}
	if m.SlowPerPackage > 0 {
		t.list("sys/devices/cpu_core/cpus", fast)
		t.list("sys/devices/cpu_atom/cpus", slow)
	}
}

func (t *tree) topology(dir string, m Machine, c cpu) {
	siblings := func(name string, o *Object) {
		t.mask(dir+name, o.CPUs)
		t.list(dir+name+"_list", o.CPUs)
	}
	t.text(dir+"physical_package_id", "%d", c.pkg.ID)
	t.text(dir+"core_id", "%d", c.core.ID)
	siblings("thread_siblings", c.core)
	siblings("core_siblings", c.pkg)
	if m.Old {
		return
	}
	t.text(dir+"die_id", "%d", c.die.ID)
	siblings("core_cpus", c.core)
	siblings("die_cpus", c.die)
	siblings("package_cpus", c.pkg)
}

func (t *tree) caches(dir string, m Machine, c cpu) {
	index := 0
	cache := func(level int, kind, size string, o *Object) {
		d := fmt.Sprintf("%sindex%d/", dir, index)
		index++
		t.text(d+"level", "%d", level)
		t.text(d+"type", "%s", kind)
		t.text(d+"size", "%s", size)
		t.text(d+"coherency_line_size", "64")
		t.mask(d+"shared_cpu_map", o.CPUs)
		if m.Old {
			return
		}
		t.list(d+"shared_cpu_list", o.CPUs)
		t.text(d+"id", "%d", o.CPUs.First()) // any number that no other cache of the level has
	}
	cache(1, "Data", "32K", c.core)
	cache(1, "Instruction", "32K", c.core)
	cache(2, "Unified", "512K", c.l2)
	if c.l3 != nil {
		cache(3, "Unified", "16384K", c.l3)
	}
}

// speed says twice which cores are slow, since readers look at different files.
func (t *tree) speed(dir string, slow bool) {
	capacity, kHz := 1024, 5200000
	if slow {
		capacity, kHz = 512, 3800000
	}
	t.text(dir+"cpu_capacity", "%d", capacity)
	t.text(dir+"cpufreq/cpuinfo_max_freq", "%d", kHz)
}

const nodeDir = "sys/devices/system/node/"

// Distances of the firmware's table.
const (
	here      = 10
	neighbour = 12 // in the same package
	far       = 21
	beyond    = 28 // where no CPU is
)

func (t *tree) nodes(m Machine, l Layout) {
	if m.NUMAPerPackage == None {
		return
	}
	var all, withCPUs cpuset.Set
	for _, o := range l.Memories {
		all.Add(o.ID)
		if !o.CPUs.Empty() {
			withCPUs.Add(o.ID)
		}
	}
	t.list(nodeDir+"possible", all)
	t.list(nodeDir+"online", all)
	t.list(nodeDir+"has_cpu", withCPUs)
	t.list(nodeDir+"has_memory", all)
	t.list(nodeDir+"has_normal_memory", all)
	kB := m.MiBPerNUMA << 10
	for i, o := range l.Memories {
		dir := fmt.Sprintf("%snode%d/", nodeDir, o.ID)
		t.mask(dir+"cpumap", o.CPUs)
		t.list(dir+"cpulist", o.CPUs)
		t.text(dir+"distance", "%s", m.distances(i, len(l.Memories)))
		prefix := fmt.Sprintf("Node %d ", o.ID)
		t.text(dir+"meminfo", "%sMemTotal:       %8d kB\n%sMemFree:        %8d kB\n%sMemUsed:        %8d kB", prefix,
			kB, prefix, kB/2, prefix, kB-kB/2)
		for n := range o.CPUs.All() {
			t.link(fmt.Sprintf("%scpu%d", dir, n), fmt.Sprintf("%scpu%d", cpuDir, n))
		}
	}
}

// distances is a row of the table.
func (m Machine) distances(i, n int) string {
	cpuless := n - m.MemoryOnly
	var row []string
	for j := range n {
		d := far
		switch {
		case i == j:
			d = here
		case i >= cpuless || j >= cpuless:
			d = beyond
		case i/m.NUMAPerPackage == j/m.NUMAPerPackage:
			d = neighbour
		}
		row = append(row, fmt.Sprint(d))
	}
	return strings.Join(row, " ")
}
