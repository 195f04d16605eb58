package bind

import (
	"fmt"
	"strings"

	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// Choice is the port that a rank is given. The zero value is none. It points
// into the machine that it was chosen from.
type Choice struct {
	HCA  *topo.HCA
	Port *topo.Port
}

// String is the port as --hca takes it, like mlx5_0:1; empty for no choice.
func (c Choice) String() string {
	if c.HCA == nil {
		return ""
	}
	return fmt.Sprintf("%s:%d", c.HCA.Name, c.Port.Number)
}

// Ports chooses a port for each rank of a node. places[i] is the CPUs that rank
// i of the node is bound to; an empty set is a rank that may run anywhere.
//
// want is --hca: NAME or NAME:PORT, with commas between; a name alone is all of
// the device's active ports. Where it is empty, these ports can be chosen: active
// ones of InfiniBand that have a LID; where there is none, RoCE of at least 10
// Gb/s on hardware; and of either no port of less than half the rate of the
// fastest, which is there for something else, such as management. If there are
// none, so are the choices.
//
// A rank gets the nearest port (see distance). Ranks that are equally near to
// the same ports take them in turn, each device once before one comes again.
//
// It fails if want names what this node does not have, or what is not active;
// the error says what there is.
func Ports(m *topo.Machine, want string, places []cpuset.Set) ([]Choice, error) {
	from := automatic(m)
	if want != "" {
		var err error
		if from, err = requested(m, want); err != nil {
			return nil, err
		}
	}
	from = inTurn(from)
	sites := make([]topo.Place, len(from))
	for i, c := range from {
		sites[i] = c.HCA.Place
	}
	near := nearer(m, sites)
	choices := make([]Choice, len(places))
	turns := map[string]int{} // by the ports of a tie
	for i, cpus := range places {
		ties := near(cpus)
		if len(ties) == 0 {
			continue
		}
		key := fmt.Sprint(ties)
		choices[i] = from[ties[turns[key]%len(ties)]]
		turns[key]++
	}
	return choices, nil
}

// Link is the candidate that is nearest to some CPUs, by the same distance as
// that of ports; of equals the first. Interfaces that are nowhere, such as
// bonds, and those that the machine does not have are behind all others. It is
// empty if there are no candidates.
func Link(m *topo.Machine, cpus cpuset.Set, candidates []string) string {
	sites := make([]topo.Place, len(candidates))
	for i, name := range candidates {
		sites[i].NUMA = -1
		for _, l := range m.Links {
			if l.Name == name {
				sites[i] = l.Place
			}
		}
	}
	if ties := nearer(m, sites)(cpus); len(ties) > 0 {
		return candidates[ties[0]]
	}
	return ""
}

// slowest is the least rate of RoCE that is chosen without being asked for, in
// Gb/s. Below it a port is for management; 1 Gb/s shows as 2.5, the slowest
// that InfiniBand has a name for.
const slowest = 10

// automatic are the ports that can be chosen without being asked for.
func automatic(m *topo.Machine) []Choice {
	var ib, roce []Choice
	for i := range m.HCAs {
		h := &m.HCAs[i]
		for j := range h.Ports {
			switch p := &h.Ports[j]; {
			case unfit(h, p) != "":
			case p.Layer == "Ethernet":
				roce = append(roce, Choice{h, p})
			default:
				ib = append(ib, Choice{h, p})
			}
		}
	}
	if len(ib) > 0 {
		return fast(ib)
	}
	return fast(roce)
}

// unfit is why a port is not chosen without being asked for; empty: it can be.
// Devices in software (rxe, siw) are slower than the sockets that they stand on, and
// most libraries do not drive iWARP.
func unfit(h *topo.HCA, p *topo.Port) string {
	ethernet := p.Layer == "Ethernet"
	switch {
	case !p.Active():
		return "it is not active"
	case !ethernet && p.Layer != "InfiniBand" && p.Layer != "": // kernels before 2.6.37 do not say
		return "its link layer is " + p.Layer
	case !ethernet && p.LID == 0:
		return "it has no LID: no subnet manager has configured it"
	case !ethernet:
		return ""
	case h.PCI == nil:
		return "it is made in software, which is slower than the sockets below it"
	case h.IWARP:
		return "it speaks iWARP, which has no datagrams"
	case p.Rate < slowest:
		return fmt.Sprintf("it has %g Gb/s", p.Rate)
	}
	return ""
}

// None says why no port of a machine is chosen without being asked for, in one line;
// empty if one is.
func None(m *topo.Machine) string {
	if len(automatic(m)) > 0 {
		return ""
	}
	var active []string
	for i := range m.HCAs {
		h := &m.HCAs[i]
		for j := range h.Ports {
			if p := &h.Ports[j]; p.Active() {
				active = append(active, fmt.Sprintf("port %v is active, but %s", Choice{h, p}, unfit(h, p)))
			}
		}
	}
	if active == nil {
		return "no InfiniBand or RoCE port is active: " + inventory(m)
	}
	return strings.Join(active, "; ") + ": --hca chooses a port nevertheless"
}

// fast leaves out ports of less than half the rate of the fastest.
func fast(ports []Choice) (kept []Choice) {
	top := 0.0
	for _, c := range ports {
		top = max(top, c.Port.Rate)
	}
	for _, c := range ports {
		if 2*c.Port.Rate >= top {
			kept = append(kept, c)
		}
	}
	return kept
}

// inTurn puts ports so that each device comes once before one comes again:
// two ranks are better off with two devices than with two ports of one.
func inTurn(ports []Choice) (turned []Choice) {
	for round := 0; len(turned) < len(ports); round++ {
		seen := map[*topo.HCA]int{}
		for _, c := range ports {
			if seen[c.HCA] == round {
				turned = append(turned, c)
			}
			seen[c.HCA]++
		}
	}
	return turned
}
