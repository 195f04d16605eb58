package show

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"ibrun/internal/plain"
	"ibrun/topo"
)

// device is a line of the picture: names that need not be told apart by what
// they are.
type device struct {
	names []string
	text  string
}

// lined bounds the columns of the names of one line; one name has at most 27.
const lined = 40

// attach sorts devices by their NUMA node. Interfaces without hardware are
// summed up elsewhere.
func (p *picture) attach() {
	for _, h := range p.m.HCAs {
		for _, port := range h.Ports {
			p.add(h.NUMA, fmt.Sprintf("%s:%d", printable(h.Name, 24), port.Number), portText(h, port))
		}
		if len(h.Ports) == 0 {
			p.add(h.NUMA, printable(h.Name, 24), "HCA without ports")
		}
	}
	for _, l := range p.m.Links {
		if !l.Virtual && !l.Loopback {
			p.add(l.NUMA, printable(l.Name, 24), linkText(l))
		}
	}
}

// add puts a device beside those that are described in the same words.
func (p *picture) add(numa int, name, text string) {
	for i, d := range p.near[numa] {
		if d.text == text {
			p.near[numa][i].names = append(d.names, name)
			return
		}
	}
	p.near[numa] = append(p.near[numa], device{[]string{name}, text})
}

func portText(h topo.HCA, port topo.Port) string {
	words := []string{printable(port.Layer, 16), printable(port.State, 16)}
	if h.IWARP {
		words[0] = "iWARP"
	}
	if !port.Active() && port.Physical != "" {
		words[1] += " (" + printable(port.Physical, 16) + ")"
	}
	if port.LID != 0 {
		words = append(words, fmt.Sprintf("LID %#x", port.LID))
	}
	if port.Rate > 0 {
		words = append(words, fmt.Sprintf("%g Gb/s", port.Rate))
	}
	for _, g := range port.GIDs {
		if on := "on " + printable(g.Link, 24); g.Link != "" && !slices.Contains(words, on) && len(words) < 7 {
			words = append(words, on)
		}
	}
	return joined(words)
}

func linkText(l topo.Link) string {
	// The numbers are ARPHRD_ETHER and ARPHRD_INFINIBAND of the kernel's if_arp.h.
	kind := map[int]string{1: "Ethernet", 32: "InfiniBand"}[l.Type]
	if kind == "" {
		kind = "interface"
	}
	words := []string{kind, "down"}
	if l.Up {
		words[1] = "up"
	}
	if l.Speed > 0 {
		words = append(words, fmt.Sprintf("%g Gb/s", float64(l.Speed)/1000))
	}
	if l.MTU > 0 {
		words = append(words, fmt.Sprintf("MTU %d", l.MTU))
	}
	return joined(words)
}

// joined puts commas between the words that there are.
func joined(words []string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")
}

// devices draws what is attached to a NUMA node, once.
func (p *picture) devices(depth, numa int) {
	var names []string
	wide := 0
	for _, d := range p.near[numa] {
		name, n := d.names[0], 1
		for n < len(d.names) && len(name+" "+d.names[n]) <= lined {
			name += " " + d.names[n]
			n++
		}
		if n < len(d.names) {
			name += fmt.Sprintf(" and %d more", len(d.names)-n)
		}
		names = append(names, name)
		wide = max(wide, len(name))
	}
	for i, d := range p.near[numa] {
		p.wrap(fmt.Sprintf("%s%-*s  ", strings.Repeat("  ", depth), wide, names[i]), d.text, " ")
	}
	delete(p.near, numa)
}

// elsewhere draws the devices of no NUMA node, or of one that is not there,
// and sums up the interfaces without hardware.
func (p *picture) elsewhere() {
	rest := &picture{m: p.m, near: map[int][]device{}}
	for _, numa := range slices.Sorted(maps.Keys(p.near)) {
		for _, d := range p.near[numa] {
			for _, name := range d.names {
				rest.add(-1, name, d.text)
			}
		}
	}
	if len(rest.near) > 0 {
		p.line(0, "at no known NUMA node")
		p.near = rest.near
		p.devices(1, -1)
	}
	up, virtual, loopback := 0, 0, 0
	for _, l := range p.m.Links {
		switch {
		case l.Loopback:
			loopback++
		case l.Virtual:
			virtual++
			if l.Up {
				up++
			}
		}
	}
	var words []string
	if virtual > 0 {
		words = append(words, fmt.Sprintf("%s, %d up", plain.Plural(virtual, "virtual interface"), up))
	}
	if loopback > 0 {
		words = append(words, plain.Plural(loopback, "loopback interface"))
	}
	if words != nil {
		p.line(0, "without hardware: %s", strings.Join(words, "; "))
	}
}
