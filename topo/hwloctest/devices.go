package hwloctest

import (
	"encoding/xml"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/topo"
)

// node is an object in hwloc's XML, with what is below it.
type node struct {
	Kind    string `xml:"type,attr"`
	Name    string `xml:"name,attr"`
	Device  string `xml:"osdev_type,attr"` // of Kind OSDev
	Bus     string `xml:"pci_busid,attr"`  // of Kind PCIDev and Bridge, the host's excepted
	Nodeset string `xml:"nodeset,attr"`    // NUMA nodes; not on devices
	Details []struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	} `xml:"info"`
	Below []node `xml:"object"`
}

// Kinds of devices in hwloc's XML: hwloc_obj_osdev_type_t of hwloc.h.
const (
	deviceNetwork     = "2"
	deviceOpenFabrics = "3"
)

// deviceInHwloc is what hwloc says of one device.
type deviceInHwloc struct {
	details map[string]string
	nodes   string   // the NUMA nodes of the object that holds its bus
	bus     []string // of its bridges and itself
}

// CompareDevices fails a test where HCAs, their ports and network interfaces
// in a machine are not those that hwloc reads in the same tree: names, states,
// LIDs, LMCs, GIDs, addresses of bridges and devices, NUMA nodes. hwloc lists
// only devices that it finds on a bus.
func CompareDevices(t testing.TB, m *topo.Machine, dir string) {
	t.Helper()
	out, err := exec.Command("lstopo-no-graphics", "--input", dir, "--whole-io", "--disallowed", "--of", "xml").Output()
	require.NoError(t, err, "lstopo-no-graphics of package hwloc or hwloc-nox is needed")
	var root node
	require.NoError(t, xml.Unmarshal(out, &struct {
		Root *node `xml:"object"`
	}{&root}))
	hcas, links := map[string]deviceInHwloc{}, map[string]deviceInHwloc{}
	root.devices("", nil, func(n *node, s deviceInHwloc) {
		switch n.Device {
		case deviceOpenFabrics:
			hcas[n.Name] = s
		case deviceNetwork:
			links[n.Name] = s
		}
	})
	for i := range m.HCAs {
		h := &m.HCAs[i]
		s, ok := hcas[h.Name]
		require.True(t, ok || h.PCI == nil, "hwloc knows no HCA %s", h.Name)
		if !ok {
			continue
		}
		delete(hcas, h.Name)
		comparePlace(t, m, h.Name, h.Place, s)
		require.Equal(t, s.ports(), ports(h), h.Name)
	}
	require.Empty(t, hcas, "hwloc knows more HCAs")
	for _, l := range m.Links {
		s, ok := links[l.Name]
		require.True(t, ok || l.PCI == nil, "hwloc knows no interface %s", l.Name)
		if !ok {
			continue
		}
		delete(links, l.Name)
		comparePlace(t, m, l.Name, l.Place, s)
	}
	require.Empty(t, links, "hwloc knows more interfaces")
}

// devices finds all operating system devices below an object.
func (n *node) devices(nodes string, bus []string, each func(*node, deviceInHwloc)) {
	if n.Nodeset != "" {
		nodes = n.Nodeset
	}
	if n.Bus != "" {
		bus = append(bus[:len(bus):len(bus)], n.Bus)
	}
	if n.Kind == "OSDev" {
		s := deviceInHwloc{map[string]string{}, nodes, bus}
		for _, d := range n.Details {
			s.details[d.Name] = d.Value
		}
		each(n, s)
	}
	for i := range n.Below {
		n.Below[i].devices(nodes, bus, each)
	}
}

// comparePlace holds a device's place against that of hwloc, which puts a
// device of which nothing is known below the whole machine. A root bus has no
// address with hwloc.
func comparePlace(t testing.TB, m *topo.Machine, name string, p topo.Place, s deviceInHwloc) {
	t.Helper()
	var bus []string
	for _, at := range p.PCI {
		if !strings.HasPrefix(at, "pci") {
			bus = append(bus, at)
		}
	}
	require.Equal(t, s.bus, bus, "%s: addresses", name)
	if p.NUMA >= 0 && !bare(m).Has(p.NUMA) {
		require.Equal(t, strconv.Itoa(p.NUMA), cpus(t, s.nodes).Without(bare(m)).String(), "%s: NUMA node of %q", name,
			s.nodes)
	}
}

// ports are an HCA's ports in the words of hwloc.
func ports(h *topo.HCA) map[string]string {
	states := map[string]string{"NOP": "0", "DOWN": "1", "INIT": "2", "ARMED": "3", "ACTIVE": "4", "ACTIVE_DEFER": "5"}
	said := map[string]string{}
	for _, p := range h.Ports {
		name := fmt.Sprintf("Port%d", p.Number)
		said[name+"State"] = states[p.State]
		said[name+"LID"] = fmt.Sprintf("0x%x", p.LID)
		said[name+"LMC"] = strconv.Itoa(int(p.LMC))
		for _, g := range p.GIDs {
			var groups []string
			for i := 0; i < len(g.GID); i += 2 {
				groups = append(groups, fmt.Sprintf("%02x%02x", g.GID[i], g.GID[i+1]))
			}
			said[fmt.Sprintf("%sGID%d", name, g.Index)] = strings.Join(groups, ":")
		}
	}
	return said
}

// ports are what hwloc says of an HCA's ports.
func (s deviceInHwloc) ports() map[string]string {
	said := map[string]string{}
	for name, value := range s.details {
		if strings.HasPrefix(name, "Port") {
			said[name] = value
		}
	}
	return said
}
