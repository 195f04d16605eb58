package topo

import (
	"slices"
	"strconv"
	"strings"

	"ibrun/internal/cpuset"
)

const cpuDir = "sys/devices/system/cpu"

// mostCPUs is CONFIG_NR_CPUS of the largest kernels (x86 with MAXSMP). Higher
// numbers are a lie, and each set that held one would cost kilobytes.
const mostCPUs = 8192

// topology is the folder of what the kernel knows of a CPU
// (drivers/base/topology.c).
func topology(cpu int) string { return folder(cpu) + "/topology" }

// folder is the folder of a CPU.
func folder(cpu int) string { return cpuDir + "/cpu" + strconv.Itoa(cpu) }

// processors finds the online CPUs, cores and packages.
func (r *reader) processors(m *Machine) {
	online := r.online()
	if online.Empty() {
		m.Online = r.flat()
		m.Cores = singles(m.Online)
		m.Packages = []Object{{-1, m.Online}}
		return
	}
	m.Cores, m.Online = r.cores(online)
	packages, rest := r.parts(m.Online, "package", r.pkg)
	if !rest.Empty() {
		r.note("CPUs %.60s are in no package: taken as one", rest)
		packages = append(packages, Object{-1, rest})
	}
	m.Packages = packages
}

// online are the CPUs that have a folder and run.
func (r *reader) online() cpuset.Set {
	there := r.numbered(cpuDir, "cpu")
	if said, ok := r.list(cpuDir + "/online"); ok && !there.Empty() {
		if online := said.And(there); !online.Empty() {
			if !said.In(there) {
				r.note("%s/online names CPUs that have no folder: left out", cpuDir)
			}
			return online
		}
		r.note("%s/online names no CPU that has a folder: all that have one are taken", cpuDir)
		return there
	}
	var online cpuset.Set
	for cpu := range there.All() {
		if on, _ := r.text(folder(cpu) + "/online"); on != "0" {
			online.Add(cpu)
		}
	}
	return online
}

// cores are the cores of the CPUs that are said to be online, and those of the
// CPUs that have a core.
func (r *reader) cores(online cpuset.Set) ([]Object, cpuset.Set) {
	cores, rest := r.parts(online, "core", r.core)
	var bare cpuset.Set
	for cpu := range rest.All() {
		if len(r.names(topology(cpu))) == 0 {
			bare.Add(cpu)
			continue
		}
		r.note("%s does not say which CPUs share the core: taken as one alone", topology(cpu))
		cores = append(cores, Object{r.id(topology(cpu) + "/core_id"), cpuset.Of(cpu)})
	}
	if len(cores) == 0 {
		r.note("%s/cpu*/topology says nothing of cores: taken as one flat node, each CPU a core", cpuDir)
		return singles(online), online
	}
	if !bare.Empty() {
		// The kernel removes the folder of a CPU that goes offline.
		r.note("CPUs %.60s have no topology: taken as offline", bare)
	}
	return cores, online.Without(bare)
}

// core is the core of a CPU. The same core_id may be in several packages and
// dies, so that only the siblings tell what it is. Their files had other names
// before Linux 5.2.
func (r *reader) core(cpu int) (Object, bool) {
	dir := topology(cpu)
	set, ok := r.either(dir+"/core_cpus_list", dir+"/core_cpus")
	if !ok {
		set, ok = r.either(dir+"/thread_siblings_list", dir+"/thread_siblings")
	}
	if !ok {
		return Object{}, false
	}
	core := Object{r.id(dir + "/core_id"), set}
	if set.Len() > 1 && set.Has(cpu) && r.computeUnits() {
		core.CPUs = cpuset.Of(cpu)
		for other := range set.All() {
			if other < mostCPUs && r.id(topology(other)+"/core_id") == core.ID {
				core.CPUs.Add(other)
			}
		}
	}
	return core, true
}

// pkg is the package of a CPU. Its files had other names before Linux 5.2, too.
func (r *reader) pkg(cpu int) (Object, bool) {
	dir := topology(cpu)
	set, ok := r.either(dir+"/package_cpus_list", dir+"/package_cpus")
	if !ok {
		set, ok = r.either(dir+"/core_siblings_list", dir+"/core_siblings")
	}
	if !ok {
		return Object{}, false
	}
	return Object{r.id(dir + "/physical_package_id"), set}, true
}

// dies are the dies inside packages. They are known since Linux 5.2.
func (r *reader) dies(m *Machine) []Object {
	dies, _ := r.parts(m.Online, "die", func(cpu int) (Object, bool) {
		dir := topology(cpu)
		set, ok := r.either(dir+"/die_cpus_list", dir+"/die_cpus")
		return Object{r.id(dir + "/die_id"), set}, ok
	})
	inPackages, inCores := levelOf(m.Packages), levelOf(m.Cores)
	return slices.DeleteFunc(dies, func(d Object) bool {
		pkg, _ := inPackages.at(d.CPUs.First())
		return d.CPUs.Len() < 2 || pkg.CPUs.In(d.CPUs) || r.crosses("die", d, inPackages, "package", false) ||
			r.crosses("die", d, inCores, "core", true)
	})
}

// computeUnits reports whether the siblings of a CPU may be cores of their own:
// AMD family 21, whose pairs of cores share one front end and one floating-point
// unit. Where each has its own core_id, hwloc takes them for cores, as AMD does.
func (r *reader) computeUnits() bool {
	if r.units != nil {
		return *r.units
	}
	first, _, _ := strings.Cut(r.head("proc/cpuinfo"), "\n\n")
	vendor, _ := field(first, "vendor_id", ":")
	family, _ := field(first, "cpu family", ":")
	units := vendor == "AuthenticAMD" && family == "21"
	r.units = &units
	return units
}

// flat are the CPUs of a machine without sysfs, as containers may be.
func (r *reader) flat() cpuset.Set {
	cpus, from := r.listed("proc/cpuinfo", cpuinfoNumber), "proc/cpuinfo"
	if cpus.Empty() {
		cpus, from = r.listed("proc/stat", statNumber), "proc/stat"
	}
	if cpus.Empty() {
		status, _ := r.text("proc/self/status")
		cpus, from = r.status(status, "Cpus_allowed_list").And(cpuset.Span(0, mostCPUs-1)), "proc/self/status"
	}
	if cpus.Empty() {
		cpus, from = cpuset.Of(0), "none, so there is one"
	}
	r.note("%s has no CPUs: taken as one flat node; its CPUs are from %s", cpuDir, from)
	return cpus
}

// listed are the CPUs that the lines of a file begin with.
func (r *reader) listed(path string, number func(line string) (string, bool)) cpuset.Set {
	var cpus cpuset.Set
	text, _ := r.text(path)
	for line := range strings.Lines(text) {
		if digits, ok := number(line); ok {
			if n, err := strconv.Atoi(digits); err == nil && n >= 0 && n < mostCPUs {
				cpus.Add(n)
			}
		}
	}
	return cpus
}

// cpuinfoNumber is the 3 of "processor : 3", or, as s390 has it, of
// "processor 3: version = FF".
func cpuinfoNumber(line string) (string, bool) {
	key, value, _ := strings.Cut(line, ":")
	digits, ok := strings.CutPrefix(key, "processor")
	if digits = strings.TrimSpace(digits); digits == "" {
		digits = strings.TrimSpace(value)
	}
	return digits, ok
}

// statNumber is the 3 of "cpu3 188923 4466 115601". The first line is of all CPUs.
func statNumber(line string) (string, bool) {
	word, _, _ := strings.Cut(line, " ")
	return strings.CutPrefix(word, "cpu")
}

// singles makes each CPU an object of its own.
func singles(cpus cpuset.Set) []Object {
	objects := make([]Object, 0, cpus.Len())
	for cpu := range cpus.All() {
		objects = append(objects, Object{-1, cpuset.Of(cpu)})
	}
	return objects
}
