package topotest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// card takes the parts of an HCA's or a link's text that both have.
func card(key, value string, numa *int, pci *[]string) (taken bool, err error) {
	switch key {
	case "numa":
		*numa, err = strconv.Atoi(value)
	case "pci":
		*pci = strings.Split(value, "/")
	default:
		return false, nil
	}
	return true, err
}

func (m *Machine) addHCA(text string) error {
	parts := strings.Split(text, ",")
	h := HCA{Name: parts[0]}
	rate := 0.0
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		taken, err := card(key, value, &h.NUMA, &h.PCI)
		switch {
		case taken:
		case key == "rate":
			rate, err = strconv.ParseFloat(value, 64)
		case key == "lid":
			var lid uint64
			lid, err = strconv.ParseUint(value, 0, 32)
			h.Ports = append(h.Ports, Port{LID: uint32(lid), SMLID: 1})
		case key == "roce":
			h.Ports = append(h.Ports, Port{Layer: "Ethernet", Link: value})
		case part == "down":
			h.Ports = append(h.Ports, Port{State: "DOWN"})
		default:
			err = fmt.Errorf("an HCA has no %s", part)
		}
		if err != nil {
			return err
		}
	}
	for i := range h.Ports {
		h.Ports[i].Rate = rate
	}
	m.HCAs = append(m.HCAs, h)
	return nil
}

func (m *Machine) addLink(text string) error {
	parts := strings.Split(text, ",")
	l := Link{Name: parts[0]}
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		taken, err := card(key, value, &l.NUMA, &l.PCI)
		switch {
		case taken:
		case key == "hca":
			l.HCA = value
		case key == "speed":
			l.Speed, err = strconv.Atoi(value)
		case key == "mtu":
			l.MTU, err = strconv.Atoi(value)
		case part == "down":
			l.Down = true
		case part == "virtual":
			l.Virtual = true
		default:
			err = fmt.Errorf("a link has no %s", part)
		}
		if err != nil {
			return err
		}
	}
	m.Links = append(m.Links, l)
	return nil
}

// nonEmpty keeps the parts whose value is worth saying.
func nonEmpty(parts ...string) []string {
	return slices.DeleteFunc(parts, func(part string) bool {
		_, value, has := strings.Cut(part, "=")
		return part == "" || has && (value == "" || value == "0")
	})
}

func (h HCA) parts() []string {
	parts := nonEmpty(h.Name, fmt.Sprintf("numa=%d", h.NUMA), "pci="+strings.Join(h.PCI, "/"))
	for i, p := range h.Ports {
		if i == 0 && p.Rate != 0 {
			parts = append(parts, fmt.Sprintf("rate=%g", p.Rate))
		}
		switch {
		case p.State == "DOWN":
			parts = append(parts, "down")
		case p.Layer == "Ethernet":
			parts = append(parts, "roce="+p.Link)
		default:
			parts = append(parts, fmt.Sprintf("lid=%#x", p.LID))
		}
	}
	return parts
}

func (l Link) parts() []string {
	word := func(is bool, word string) string {
		if is {
			return word
		}
		return ""
	}
	return nonEmpty(l.Name, "hca="+l.HCA, fmt.Sprintf("numa=%d", l.NUMA), "pci="+strings.Join(l.PCI, "/"),
		fmt.Sprintf("speed=%d", l.Speed), fmt.Sprintf("mtu=%d", l.MTU), word(l.Down, "down"),
		word(l.Virtual, "virtual"))
}
