package hwloctest

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"ibrun/internal/cpuset"
	"ibrun/topo"
	"ibrun/topo/topotest"
)

// Described returns the machine that a description of topotest lays out, without reading files of
// it. The machine has no devices, and its load is not known.
func Described(words string) *topo.Machine { return laidOut(topotest.Must(words)) }

// Drawn is Described for a description that is drawn by chance.
func Drawn(r *rand.Rand) *topo.Machine {
	for {
		if m := laidOut(topotest.Draw(r, 400)); len(m.Memories) > 0 { // else its kernel is one without NUMA
			return m
		}
	}
}

func laidOut(d topotest.Machine) *topo.Machine {
	l := d.Layout()
	m := &topo.Machine{Online: l.Online, Allowed: l.Allowed, AllowedMems: l.Mems, Slower: l.Slower, Load: -1}
	m.Cores, m.Packages, m.L3s = objects(l.Cores), objects(l.Packages), objects(l.L3s)
	for _, o := range objects(l.Memories) {
		m.Memories = append(m.Memories, topo.Memory{Object: o, Bytes: uint64(cmp.Or(d.MiBPerNUMA, 4096)) << 20})
	}
	return m
}

func objects(described []topotest.Object) (all []topo.Object) {
	for _, o := range described {
		all = append(all, topo.Object(o))
	}
	return all
}

// Odd draws a machine that keeps what topo.Machine says of itself and nothing more: each online CPU
// is in one core, one NUMA node and one package, which need not nest. Texts of its devices may be
// any bytes.
func Odd(r *rand.Rand, maxCPUs int) *topo.Machine {
	cpus := r.Perm(maxCPUs)[:1+r.IntN(maxCPUs)]
	m := &topo.Machine{Online: cpuset.Of(cpus...), Load: -1, Quota: float64(r.IntN(3)) / 2}
	deal := func(most int) (dealt []topo.Object) {
		dealt = make([]topo.Object, 1+r.IntN(most))
		for _, cpu := range cpus {
			dealt[r.IntN(len(dealt))].CPUs.Add(cpu)
		}
		for i := range dealt {
			dealt[i].ID = r.IntN(9) - 1
		}
		return slices.DeleteFunc(dealt, func(o topo.Object) bool { return o.CPUs.Empty() })
	}
	m.Cores, m.Packages = deal(len(cpus)), deal(min(4, len(cpus)))
	for i, o := range deal(6) {
		o.ID = 3 * i
		m.Memories = append(m.Memories, topo.Memory{Object: o, Bytes: r.Uint64N(2) << r.IntN(45),
			Distance: make([]int, r.IntN(4))})
		m.AllowedMems.Add(o.ID)
	}
	if r.IntN(4) == 0 {
		m.Dies = deal(4)
	}
	for range r.IntN(90) {
		m.L3s = append(m.L3s, topo.Object{ID: -1, CPUs: Some(r, m.Online)})
	}
	m.Allowed, m.Slower, m.AllowedMems = Some(r, m.Online), Some(r, m.Online), Some(r, m.AllowedMems)
	for range r.IntN(9) {
		noise := make([]byte, r.IntN(200))
		for i := range noise {
			noise[i] = byte(r.IntN(256))
		}
		text, place := string(noise), topo.Place{NUMA: r.IntN(20) - 1}
		h := topo.HCA{Name: text, Place: place}
		for range r.IntN(3) {
			h.Ports = append(h.Ports, topo.Port{State: text, Physical: text, Layer: text, GIDs: []topo.GID{{Link: text}}})
		}
		m.HCAs, m.Notes = append(m.HCAs, h), append(m.Notes, text)
		m.Links = append(m.Links, topo.Link{Name: text, Place: place, Virtual: r.IntN(2) == 0, MTU: r.Int(),
			Speed: r.Int(), Type: r.IntN(3)})
	}
	return m
}

// Some draws a part of a set, and never nothing of it.
func Some(r *rand.Rand, of cpuset.Set) (s cpuset.Set) {
	likely := 1 + r.IntN(9)
	for n := range of.All() {
		if r.IntN(10) < likely {
			s.Add(n)
		}
	}
	if s.Empty() {
		s.Add(of.First())
	}
	return s
}
