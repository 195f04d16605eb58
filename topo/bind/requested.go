package bind

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ibrun/topo"
)

// requested are the ports that --hca names, in its order.
func requested(m *topo.Machine, want string) ([]Choice, error) {
	var ports []Choice
	for word := range strings.SplitSeq(want, ",") {
		word = strings.TrimSpace(word)
		some, why := named(m, word)
		if some == nil {
			return nil, fmt.Errorf("--hca %s: %s%s; see them with: ibrun --display topo", word, why, inventory(m))
		}
		for _, c := range some {
			if !slices.Contains(ports, c) {
				ports = append(ports, c)
			}
		}
	}
	return ports, nil
}

// named are the ports of one word, or why there are none if what the machine
// has does not say it.
func named(m *topo.Machine, word string) (ports []Choice, why string) {
	name, number, one := strings.Cut(word, ":")
	i := slices.IndexFunc(m.HCAs, func(h topo.HCA) bool { return h.Name == name })
	if i < 0 {
		return nil, ""
	}
	h := &m.HCAs[i]
	for j := range h.Ports {
		p := &h.Ports[j]
		switch {
		case one && strconv.Itoa(p.Number) != number:
		case p.Active():
			ports = append(ports, Choice{h, p})
		case one:
			return nil, "the port is not active: "
		}
	}
	switch {
	case ports != nil:
		return ports, ""
	case one:
		return nil, "there is no such port: "
	}
	return nil, "it has no active port: "
}

// inventory is a machine's HCAs and their ports' states in a few words.
func inventory(m *topo.Machine) string {
	var hcas []string
	for _, h := range m.HCAs {
		var ports []string
		for _, p := range h.Ports {
			state := p.State
			if state == "" {
				state = "in a state that is not known"
			}
			ports = append(ports, fmt.Sprintf("port %d %s", p.Number, state))
		}
		hcas = append(hcas, fmt.Sprintf("%s (%s)", h.Name, strings.Join(ports, ", ")))
	}
	if hcas == nil {
		return "this node has no HCA"
	}
	return "this node has " + strings.Join(hcas, ", ")
}
