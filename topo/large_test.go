package topo_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/topo"
)

// large is a node of two packages, each with four NUMA nodes, eight caches and
// 64 cores of two threads: 256 CPUs.
func large() world {
	const cores = 128
	var w strings.Builder
	pair := func(from, to int) string {
		return fmt.Sprintf("%d-%d,%d-%d", from, to, from+cores, to+cores)
	}
	fmt.Fprintf(&w, "online 0-%d\n", 2*cores-1)
	for c := range cores {
		fmt.Fprintf(&w, "core %d %d,%d\n", c%64, c, c+cores)
		fmt.Fprintf(&w, "cache 1 Data %d,%d\ncache 1 Instruction %d,%d\ncache 2 Unified %d,%d\n", c, c+cores, c,
			c+cores, c, c+cores)
	}
	for c := 0; c < cores; c += 8 {
		fmt.Fprintf(&w, "cache 3 Unified %s\n", pair(c, c+7))
	}
	for n := range 8 {
		fmt.Fprintf(&w, "node %d %s 10,12,12,12,32,32,32,32\n", n, pair(16*n, 16*n+15))
	}
	for p := range 2 {
		fmt.Fprintf(&w, "package %d %s\n", p, pair(64*p, 64*p+63))
	}
	w.WriteString("each 0-255 cpufreq/cpuinfo_max_freq 3700000\nproc/self/status = " +
		"Cpus_allowed_list:\t0-255\\nMems_allowed_list:\t0-7\n")
	w.WriteString("proc/loadavg = 0.5 0.5 0.5 1/999 1\nproc/cpuinfo = processor : 0\\nvendor_id : AuthenticAMD\\ncpu " +
		"family : 25\\n\n")
	return world(w.String())
}

// TestLarge holds the bound for memory: 4 MiB for 256 CPUs.
func TestLarge(t *testing.T) {
	dir := large().unfold(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m := topo.Read(os.DirFS(dir))
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
	require.Empty(t, m.Notes)
	require.Equal(t, []int{256, 128, 16, 8, 2}, []int{m.Online.Len(), len(m.Cores), len(m.L3s), len(m.Memories),
		len(m.Packages)})
	if compare != nil {
		compare(t, m, dir)
	}
}
