package topotest

import (
	"fmt"
	"strings"

	"ibrun/internal/cpuset"
)

// processes writes what procfs says of the machine and of the reader itself.
func (t *tree) processes(m Machine, l Layout) {
	var info, stat strings.Builder
	stat.WriteString("cpu  1000 0 500 100000 0 0 0 0 0 0\n")
	for _, c := range l.cpus {
		if !l.Online.Has(c.number) {
			continue
		}
		fmt.Fprintf(&info,
			"processor\t: %d\nvendor_id\t: GenuineTest\nmodel name\t: Described CPU\nphysical id\t: %d\ncore id\t\t: "+
				"%d\nsiblings\t: %d\n\n",
			c.number, c.pkg.ID, c.core.ID, c.pkg.CPUs.Len())
		fmt.Fprintf(&stat, "cpu%d 10 0 5 1000 0 0 0 0 0 0\n", c.number)
	}
	stat.WriteString("ctxt 4242\nbtime 1200000000\nprocesses 4242")
	t.text("proc/cpuinfo", "%s", strings.TrimSuffix(info.String(), "\n"))
	t.text("proc/stat", "%s", stat.String())
	t.text("proc/loadavg", "%.2f %.2f %.2f 1/200 4242", m.Load, m.Load, m.Load)
	kB := (m.MiBPerNUMA << 10) * max(1, len(l.Memories))
	t.text("proc/meminfo", "MemTotal:       %8d kB\nMemFree:        %8d kB\nMemAvailable:   %8d kB", kB, kB/2, kB/2)

	// A process that nobody restricted may use CPUs that do not exist yet.
	cpus := cpuset.Span(0, 32*t.width-1)
	if !m.Allowed.Empty() || !m.Affinity.Empty() {
		cpus = l.Allowed
	}
	memsWidth := l.Mems.Last()/32 + 1
	t.text("proc/self/status",
		"Name:\tibrun\nUmask:\t0022\nState:\tR (running)\nTgid:\t4242\nPid:\t4242\nPPid:\t1\nThreads:\t1\n"+
			"Cpus_allowed:\t%s\nCpus_allowed_list:\t%s\nMems_allowed:\t%s\nMems_allowed_list:\t%s\n"+
			"voluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t0",
		mask(cpus, t.width), cpus, mask(l.Mems, memsWidth), l.Mems)
}

// The cgroup of a process that is restricted, and its parent, which has the
// quota: the kernel counts all limits on the way to the root.
const (
	parentGroup = "/job_7"
	ownGroup    = "/job_7/step_0"
)

const groupDir = "sys/fs/cgroup"

// period of the scheduler's quotas in us, the kernel's default.
const period = 100000

func (t *tree) cgroups(m Machine, l Layout) {
	own := "/"
	if !m.Allowed.Empty() || !m.AllowedMems.Empty() || m.Quota > 0 {
		own = ownGroup
	}
	t.text("proc/self/cpuset", "%s", own)
	if m.Cgroup == 1 {
		t.cgroup1(m, l, own)
	} else {
		t.cgroup2(m, l, own)
	}
	t.link("proc/mounts", "proc/self/mounts")
}

const otherMounts = "proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0\nsysfs /sys sysfs " +
	"rw,nosuid,nodev,noexec,relatime 0 0\n/dev/sda1 / ext4 rw,relatime 0 0\n"

// everywhere is the root's allowance.
func everywhere(l Layout) (cpus, mems cpuset.Set) {
	for _, o := range l.Memories {
		mems.Add(o.ID)
	}
	if mems.Empty() {
		mems.Add(0)
	}
	return l.Online, mems
}

func (t *tree) cgroup2(m Machine, l Layout, own string) {
	t.text("proc/self/mounts", "%scgroup2 /%s cgroup2 rw,nosuid,nodev,noexec,relatime 0 0", otherMounts, groupDir)
	t.text("proc/self/cgroup", "0::%s", own)
	cpus, mems := everywhere(l)
	t.text(groupDir+"/cgroup.controllers", "cpuset cpu io memory pids")
	t.list(groupDir+"/cpuset.cpus.effective", cpus)
	t.list(groupDir+"/cpuset.mems.effective", mems)
	if own == "/" {
		return
	}
	quota := "max"
	if m.Quota > 0 {
		quota = fmt.Sprintf("%.0f", m.Quota*period)
	}
	for _, group := range []string{parentGroup, ownGroup} {
		dir := groupDir + group + "/"
		t.text(dir+"cgroup.controllers", "cpuset cpu memory")
		t.list(dir+"cpuset.cpus", m.Allowed)
		t.list(dir+"cpuset.mems", m.AllowedMems)
		t.list(dir+"cpuset.cpus.effective", l.Cgroup)
		t.list(dir+"cpuset.mems.effective", l.Mems)
		t.text(dir+"cpu.max", "%s %d", quota, period)
		quota = "max"
	}
}

func (t *tree) cgroup1(m Machine, l Layout, own string) {
	t.text("proc/self/mounts",
		"%stmpfs /%s tmpfs ro,nosuid,nodev,noexec,mode=755 0 0\ncgroup /%s/cpuset cgroup "+
			"rw,nosuid,nodev,noexec,relatime,cpuset 0 0\n"+
			"cgroup /%s/cpu,cpuacct cgroup rw,nosuid,nodev,noexec,relatime,cpu,cpuacct 0 0", otherMounts, groupDir,
		groupDir, groupDir)
	t.text("proc/self/cgroup", "3:cpuset:%s\n2:cpu,cpuacct:%s\n1:name=systemd:/init.scope", own, own)
	sets := func(group string, cpus, mems cpuset.Set) {
		dir := groupDir + "/cpuset" + group
		t.list(dir+"/cpuset.cpus", cpus)
		t.list(dir+"/cpuset.mems", mems)
		if !m.Old {
			t.list(dir+"/cpuset.effective_cpus", cpus)
			t.list(dir+"/cpuset.effective_mems", mems)
		}
	}
	quota := func(group string, us int) {
		dir := groupDir + "/cpu,cpuacct" + group
		t.text(dir+"/cpu.cfs_period_us", "%d", period)
		t.text(dir+"/cpu.cfs_quota_us", "%d", us)
	}
	cpus, mems := everywhere(l)
	sets("", cpus, mems)
	quota("", -1)
	if own == "/" {
		return
	}
	us := -1
	if m.Quota > 0 {
		us = int(m.Quota * period)
	}
	for _, group := range []string{parentGroup, ownGroup} {
		sets(group, l.Cgroup, l.Mems)
		quota(group, us)
		us = -1
	}
}
