//go:build cluster

package show_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/internal/proc"
	"ibrun/topo"
	"ibrun/topo/hwloctest"
	"ibrun/topo/show"
	"ibrun/topo/topotest"
)

// TestLoads lets hwloc load the text of each captured machine.
func TestLoads(t *testing.T) {
	for name, m := range hwloctest.Machines(t) {
		t.Run(name, func(t *testing.T) {
			hwloctest.CompareLoaded(t, m, show.HwlocXML(m))
		})
	}
}

// TestHere is the same with the machine that the test runs on.
func TestHere(t *testing.T) {
	m := topo.Read(proc.Here())
	hwloctest.CompareLoaded(t, m, show.HwlocXML(m))
}

// TestMade is the same with what no captured machine has. hwloc reads each of them from sysfs, too,
// so that what is loaded is what it would have made itself.
func TestMade(t *testing.T) {
	for _, words := range []string{
		"core:1",
		"numa:none core:4 pu:2",
		"pack:2 numa:2 l3:none core:4", // NUMA nodes in packages, without caches
		"pack:4 numa:1/2 core:2",       // packages in NUMA nodes
		"pack:2 core:2 memonly:1",
		"pack:2 core:4 numaholes:1-4 cpuholes:4-7",
		"pack:4 core:2 pu:2 order:cyclic offline:2,5,13-14 allowed:0-9 mems:0-1",
		"pack:2 core:4 allowed:0-3 mems:1", // memory of the CPUs that may not be used
		"pack:2 core:17 pu:2 affinity:3,62-67",
	} {
		t.Run(words, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, topotest.Must(words).Files()))
			m := topo.Read(os.DirFS(dir))
			hwloctest.Compare(t, m, dir)
			hwloctest.CompareLoaded(t, m, show.HwlocXML(m))
		})
	}
}

// TestManyCPUs has sets of more words than any machine at hand: each core has CPUs of both halves.
func TestManyCPUs(t *testing.T) {
	const half = 600
	m := &topo.Machine{Online: cpuset.Span(0, 2*half-1), AllowedMems: cpuset.Of(0, 40)}
	m.Allowed = m.Online.Without(cpuset.Of(1, half+7, 2*half-1))
	for core := range half {
		m.Cores = append(m.Cores, topo.Object{ID: core, CPUs: cpuset.Of(core, core+half)})
	}
	for i, id := range []int{0, 40} {
		lo, hi := i*half/2, (i+1)*half/2-1
		o := topo.Object{ID: id, CPUs: cpuset.Span(lo, hi).Or(cpuset.Span(lo+half, hi+half))}
		m.Packages = append(m.Packages, o)
		m.Memories = append(m.Memories, topo.Memory{Object: o, Bytes: 1 << 40})
	}
	hwloctest.CompareLoaded(t, m, show.HwlocXML(m))
}
