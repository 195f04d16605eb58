package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// label is a port's name.
func label(h *HCA, p *Port) string { return fmt.Sprintf("%s:%d", h.Name, p.Number) }

// ports judges each port by itself. A port that is down beside one that is up
// is nothing to worry about by itself.
func (j *verdict) ports(n *Node) {
	for i := range n.Report.HCAs {
		h := &n.Report.HCAs[i]
		for k := range h.Ports {
			p := &h.Ports[k]
			worth := j.forVerbs(Warning)
			if n.Report.active() {
				worth = Note
			}
			text, hint := fmt.Sprintf("%s (%s)", p.State, p.Physical), ""
			switch {
			case p.Active():
				j.partitions(n, h, p)
				continue
			case p.Infiniband() && (p.State == "INIT" || p.State == "ARMED"):
				text += ": no subnet manager has made it active"
				hint = "is one running? sminfo; systemctl start opensm on one node"
			case p.Infiniband():
				hint = "look at cable and switch: ibstat " + h.Name + "; iblinkinfo"
			case len(h.Links) > 0:
				hint = fmt.Sprintf("ip link set %s up; rdma link", h.Links[0])
			default:
				hint = "ip link set its interface up; rdma link"
			}
			j.find(worth, label(h, p), text, hint, n.Name)
		}
	}
}

// fullMember is the bit of a partition key that lets its owner talk to all.
const fullMember = 0x8000

func (j *verdict) partitions(n *Node, h *HCA, p *Port) {
	if !p.Infiniband() || len(p.PKeys) == 0 {
		return
	}
	if !slices.ContainsFunc(p.PKeys, func(k uint16) bool { return k&fullMember != 0 }) {
		j.find(j.forVerbs(Warning), label(h, p),
			"it is but a limited member of its partitions, and limited members cannot talk to each other",
			"see the subnet manager's partitions.conf: smpquery pkeys", n.Name)
	}
	if p.LID == 0 {
		j.find(j.forVerbs(Warning), label(h, p), "it is active and has no LID", "ibstat "+h.Name, n.Name)
	}
}

// mostLMC is the most low bits of a LID that a port may have to itself
// (InfiniBand architecture, volume 1, 4.1.3).
const mostLMC = 7

// portOfNode is a port of some node.
type portOfNode struct {
	node *Node
	hca  *HCA
	port *Port
}

func (s portOfNode) String() string { return s.node.Name + " " + label(s.hca, s.port) }

// all are the ports of all machines.
func (j *verdict) all() (ports []portOfNode) {
	for _, n := range j.machines {
		for i := range n.Report.HCAs {
			h := &n.Report.HCAs[i]
			for k := range h.Ports {
				ports = append(ports, portOfNode{n, h, &h.Ports[k]})
			}
		}
	}
	return ports
}

// fabrics compares the ports of all nodes.
func (j *verdict) fabrics() {
	j.presence()
	j.guids()
	j.lids()
	ports := map[string][]portOfNode{}
	var labels []string
	for _, s := range j.all() {
		l := label(s.hca, s.port)
		if ports[l] == nil {
			labels = append(labels, l)
		}
		ports[l] = append(ports[l], s)
	}
	for _, l := range labels {
		j.alike(l, ports[l])
	}
}

// presence compares who has RDMA at all.
func (j *verdict) presence() {
	var have values
	for _, n := range j.machines {
		switch {
		case n.Report.active():
			have.add("active ports", n.Name)
		case len(n.Report.HCAs) > 0:
			have.add("no active port", n.Name)
		default:
			have.add("no device", n.Name)
		}
	}
	if len(have) > 1 && slices.ContainsFunc(have, func(g group) bool { return g.value == "active ports" }) {
		j.find(j.forVerbs(Warning), "rdma", "nodes differ: "+have.text(),
			"leave out those without (--exclude), or write --fabric udp", have.names()...)
	}
}

// guids finds numbers that should be unique in the world.
func (j *verdict) guids() {
	nodes, ports := map[string][]string{}, map[string][]string{}
	for _, n := range j.machines {
		for i := range n.Report.HCAs {
			h := &n.Report.HCAs[i]
			if strings.Trim(h.GUID, "0") != "" {
				nodes[h.GUID] = append(nodes[h.GUID], n.Name)
			}
			for k := range h.Ports {
				if _, guid := h.Ports[k].own(); strings.Trim(guid, "0") != "" {
					ports[guid] = append(ports[guid], n.Name)
				}
			}
		}
	}
	for _, c := range []struct {
		what  string
		found map[string][]string
	}{{"node", nodes}, {"port", ports}} {
		for _, guid := range slices.Sorted(maps.Keys(c.found)) {
			if names := c.found[guid]; len(names) > 1 {
				j.find(Error, c.what+" GUID", fmt.Sprintf("%s is the %s GUID of several devices", guid, c.what),
					"flash one of them anew, or restart the virtual machine with its own: ibstat; mlxconfig", names...)
			}
		}
	}
}

// lids finds ports of one subnet that answer to the same LID.
func (j *verdict) lids() {
	type place struct {
		subnet string
		lid    uint32
	}
	taken := map[place]portOfNode{}
	managers := map[string]*values{}
	var subnets []string
	for _, s := range j.all() {
		subnet, _ := s.port.own()
		if subnet == "" || !s.port.Active() || s.port.LID == 0 {
			continue
		}
		if managers[subnet] == nil {
			managers[subnet] = &values{}
			subnets = append(subnets, subnet)
		}
		managers[subnet].add(fmt.Sprintf("LID %d", s.port.SMLID), s.node.Name)
		for lid := s.port.LID; lid < s.port.LID+1<<min(s.port.LMC, mostLMC); lid++ {
			if first, is := taken[place{subnet, lid}]; is {
				j.find(Error, "LID", fmt.Sprintf("%s and %s both have LID %d in subnet %s", first, s, lid, subnet),
					"ask the subnet manager: saquery -p; sminfo; two of them may be running", first.node.Name,
					s.node.Name)
				break
			}
			taken[place{subnet, lid}] = s
		}
	}
	for _, subnet := range subnets {
		if v := *managers[subnet]; len(v) > 1 {
			j.find(Warning, "subnet manager", fmt.Sprintf("in subnet %s it is at %s", subnet, v.text()),
				"sminfo on each; are these two fabrics with one prefix?", v.names()...)
		}
	}
}

// alike compares the ports of one name.
func (j *verdict) alike(name string, ports []portOfNode) {
	var states, layers, rates, mtus, subnets values
	var up []portOfNode
	for _, s := range ports {
		states.add(s.port.State, s.node.Name)
		if !s.port.Active() {
			continue
		}
		up = append(up, s)
		layers.add(s.port.Layer, s.node.Name)
		rates.add(fmt.Sprintf("%g Gb/s", s.port.Rate), s.node.Name)
		if s.port.MTU > 0 {
			mtus.add(fmt.Sprint(s.port.MTU), s.node.Name)
		}
		if subnet, _ := s.port.own(); subnet != "" {
			subnets.add(subnet, s.node.Name)
		}
	}
	if len(up) > 0 {
		j.unequal(Warning, name, "state differs", "ibstat; rdma link", states)
	}
	breaks := j.forVerbs(Warning) // nothing goes between ports that differ in these
	j.unequal(breaks, name, "link layer differs", "name ports that fit with --hca; mlxconfig query LINK_TYPE_P1",
		layers)
	j.unequal(breaks, name, "subnet prefix differs", "name ports of one fabric with --hca; ibstat", subnets)
	j.unequal(Warning, name, "rate differs", "a bad cable or an older card: iblinkinfo; ibstat", rates)
	j.unequal(Warning, name, "MTU differs", "the lowest is used: ip link set dev INTERFACE mtu 4200", mtus)
	j.shared(name, up)
}

// shared finds ports that no partition has in common.
func (j *verdict) shared(name string, up []portOfNode) {
	var common []uint16
	var all values
	for _, s := range up {
		if !s.port.Infiniband() || len(s.port.PKeys) == 0 {
			continue
		}
		var have []uint16
		var texts []string
		for _, key := range s.port.PKeys {
			have = append(have, key&^fullMember)
			texts = append(texts, fmt.Sprintf("%#04x", key))
		}
		if all == nil {
			common = have
		}
		common = slices.DeleteFunc(common, func(key uint16) bool { return !slices.Contains(have, key) })
		all.add(strings.Join(texts, "+"), s.node.Name)
	}
	if all != nil && len(common) == 0 {
		j.find(j.forVerbs(Warning), name, "no partition (pkey) is shared by all: "+all.text(),
			"see the subnet manager's partitions.conf: smpquery pkeys", all.names()...)
	}
}
