package hwloctest

import (
	"bytes"
	"encoding/xml"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// CompareLoaded fails a test if hwloc does not load a text of XML without a complaint, finds the
// tree unsound, or makes of it other parts than a machine has among the CPUs and NUMA nodes that
// may be used: packages, NUMA nodes with memory, last-level caches, cores and PUs.
func CompareLoaded(t testing.TB, m *topo.Machine, text string) {
	t.Helper()
	h := load(t, text)
	require.Equal(t, m.Online.String(), cpus(t, h.Machine.Complete).String(), "all CPUs")
	require.Equal(t, m.Allowed.String(), cpus(t, h.Machine.CPUs).String(), "CPUs")
	require.Equal(t, m.Allowed.String(), cpus(t, h.Machine.Allowed).String(), "allowed CPUs")
	require.Equal(t, lines(m.Objects(topo.PU), m.Allowed), h.find("PU"), "PUs")
	h.compare(t, m, m.Allowed, []string{"L3Cache"})
	bare := cpuset.Set{}
	nodes := slices.DeleteFunc(memories(m, m.Allowed), func(l line) bool { return !m.AllowedMems.Has(l.id) })
	for _, l := range nodes {
		if l.cpus == "" {
			bare.Add(l.id)
		}
	}
	require.Equal(t, nodes, h.memories(bare), "NUMA nodes")
	require.Equal(t, m.AllowedMems.String(), cpus(t, h.Machine.AllowedMems).String(), "allowed NUMA nodes")
}

// load lets hwloc load a text and write what it has made of it.
func load(t testing.TB, text string) *topology {
	t.Helper()
	cmd := exec.Command("lstopo-no-graphics", "--if", "xml", "--input", "-", "--of", "xml")
	cmd.Stdin = strings.NewReader(text)
	cmd.Env = append(os.Environ(), "HWLOC_DEBUG_CHECK=1", "HWLOC_XML_VERBOSE=1", "HWLOC_HIDE_ERRORS=0")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", complaints.String(), text)
	require.Empty(t, complaints.String())
	h := &topology{}
	require.NoError(t, xml.Unmarshal(out, h))
	return h
}
