package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// same finds nodes that are one machine by several names. From then on each
// machine counts once, since it would only be found equal to itself.
func (j *verdict) same() {
	names := map[string][]string{}
	var once []*Node
	for _, n := range j.machines {
		key := n.Report.Boot + " " + n.Report.Host
		if n.Report.Boot == "" {
			key = "node " + n.Name
		}
		if names[key] == nil {
			once = append(once, n)
		}
		names[key] = append(names[key], n.Name)
	}
	j.machines = once
	for _, key := range slices.Sorted(maps.Keys(names)) {
		if len(names[key]) > 1 {
			j.find(Note, "name", "these are names of one machine", "", names[key]...)
		}
	}
}

// systems compares kernels and processors.
func (j *verdict) systems() {
	var kernels, machines, cpus values
	for _, n := range j.machines {
		r := n.Report
		kernels.add(r.Kernel, n.Name)
		machines.add(r.Machine, n.Name)
		cpus.add(fmt.Sprint(r.CPUs.Many), n.Name)
	}
	j.unequal(Note, "kernel", "kernel differs", "", kernels)
	j.unequal(Warning, "machine", "kind of machine differs", "", machines)
	j.unequal(Note, "cpus", "number of CPUs that ranks may use differs", "", cpus)
}

// networks compares data paths, and finds addresses that several nodes have.
func (j *verdict) networks() {
	var mtus, speeds, kinds values
	owners := map[string][]string{}
	data, virtual := map[string]bool{}, map[string]bool{}
	for _, n := range j.machines {
		d := n.Report.Data
		if d.Fault == "" && !d.Local {
			mtus.add(fmt.Sprint(d.MTU), n.Name)
			if d.Speed > 0 {
				speeds.add(fmt.Sprintf("%d Mb/s", d.Speed), n.Name)
			}
			kind := "IPv4"
			if strings.Contains(d.Addr, ":") {
				kind = "IPv6"
			}
			kinds.add(kind, n.Name)
			data[d.Addr] = true
		}
		for _, a := range n.Report.Addrs {
			if !slices.Contains(owners[a.Addr], n.Name) {
				owners[a.Addr] = append(owners[a.Addr], n.Name)
			}
			virtual[a.Addr] = a.Virtual
		}
	}
	j.unequal(Warning, "data path", "MTU differs",
		"make them equal: ip link set dev INTERFACE mtu 9000; ping -M do -s 8972 HOST", mtus)
	j.unequal(Warning, "data path", "speed differs", "ethtool INTERFACE; another interface may be meant: --iface",
		speeds)
	j.unequal(Error, "data path", "kind of address differs", "name networks that all have: --iface 10.0.0.0/8", kinds)
	for _, addr := range slices.Sorted(maps.Keys(owners)) {
		names := owners[addr]
		if len(names) < 2 {
			continue
		}
		switch {
		case data[addr]:
			j.find(Error, "address", fmt.Sprintf("%s, by which data would go, is an address of several nodes", addr),
				"choose another interface: --iface; see: ip addr", names...)
		case virtual[addr]:
			j.find(Note, "address",
				fmt.Sprintf("%s is an address of several nodes, as of container bridges; data does not go by it", addr),
				"", names...)
		default:
			j.find(Warning, "address", fmt.Sprintf("%s is an address of several nodes", addr),
				"see who has it: ip addr", names...)
		}
	}
}
