package bind

import (
	"strconv"
	"strings"

	"ibrun/internal/cpuset"
	"ibrun/topo"
	"ibrun/topo/hwloctest"
)

// builder makes a machine of lines. "PACKAGE NUMA CACHE: 0+8 4+12" is cores
// with their CPUs; the cache is any word, or - for none. "described core:8" is
// a machine that package topotest describes so. Other lines change
// what comes before them: "allow 0-3", "mems 2,3", "slower 8-15", "quota 1.5",
// "empty 1" (a NUMA node without memory), "memory 4" (one without CPUs) and
// "far 0: 10 20" (distances).
type builder struct {
	*topo.Machine
	packages, caches map[string]int
}

func list(text string) cpuset.Set {
	s, err := cpuset.ParseList(text)
	if err != nil {
		panic(err)
	}
	return s
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func machine(text string) *topo.Machine {
	b := builder{&topo.Machine{Load: -1}, map[string]int{}, map[string]int{}}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			b.line(line)
		}
	}
	return b.Machine
}

func (b builder) line(line string) {
	where, rest, isCores := strings.Cut(line, ": ")
	if in := strings.Fields(where); isCores && len(in) == 3 {
		for core := range strings.FieldsSeq(rest) {
			b.core(in[0], number(in[1]), in[2], list(strings.ReplaceAll(core, "+", ",")))
		}
		return
	}
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "described":
		*b.Machine = *hwloctest.Described(rest)
	case "allow":
		b.Allowed = list(rest)
	case "mems":
		b.AllowedMems = list(rest)
	case "slower":
		b.Slower = list(rest)
	case "quota":
		q, err := strconv.ParseFloat(rest, 64)
		if err != nil {
			panic(err)
		}
		b.Quota = q
	case "empty":
		b.memory(number(rest)).Bytes = 0
	case "memory":
		b.memory(number(rest))
	case "far":
		from, far, _ := strings.Cut(rest, ": ")
		for d := range strings.FieldsSeq(far) {
			n := b.memory(number(from))
			n.Distance = append(n.Distance, number(d))
		}
	default:
		panic(line)
	}
}

func (b builder) core(pack string, numa int, cache string, cpus cpuset.Set) {
	b.Cores = append(b.Cores, topo.Object{ID: len(b.Cores), CPUs: cpus})
	into(&b.Packages, b.packages, pack, cpus)
	if cache != "-" {
		into(&b.L3s, b.caches, cache, cpus)
	}
	n := b.memory(numa)
	n.CPUs = n.CPUs.Or(cpus)
	b.Online, b.Allowed = b.Online.Or(cpus), b.Allowed.Or(cpus)
}

func into(objects *[]topo.Object, byName map[string]int, name string, cpus cpuset.Set) {
	i, ok := byName[name]
	if !ok {
		i = len(*objects)
		byName[name] = i
		*objects = append(*objects, topo.Object{ID: i})
	}
	(*objects)[i].CPUs = (*objects)[i].CPUs.Or(cpus)
}

// memory is a NUMA node, made at its first use.
func (b builder) memory(id int) *topo.Memory {
	at := 0
	for at < len(b.Memories) && b.Memories[at].ID < id {
		at++
	}
	if at == len(b.Memories) || b.Memories[at].ID != id {
		tail := append([]topo.Memory{{Object: topo.Object{ID: id}, Bytes: 8 << 30}}, b.Memories[at:]...)
		b.Memories = append(b.Memories[:at:at], tail...)
		b.AllowedMems.Add(id)
	}
	return &b.Memories[at]
}

// The machines of the captures, as hwloc reads them.
var shapes = map[string]string{
	// 16amd64-4n4c-cgroup-distance-merge, as if without its cgroup
	"opteron": `
		0 0 a: 0 1 2 3
		1 1 b: 4 5 6 7
		2 2 c: 8 9 10 11
		3 3 d: 12 13 14 15`,
	// the same with it
	"cgroup": `
		0 0 a: 0 1 2 3
		1 1 b: 4 5 6 7
		2 2 c: 8 9 10 11
		3 3 d: 12 13 14 15
		allow 0-3
		mems 2-3`,
	// 16em64t-4s2c2t-offlines
	"offlines": `
		0 0 a: 0+8 4+12
		1 0 -: 1+9
		2 0 c: 3+11 7+15
		3 0 d: 6 10`,
	// 32em64t-2n8c+dax+nvme+mic+dimms
	"sandy": "described pack:2 core:8",
	// 64amd64-4s2n4ca2co
	"interlagos": "described pack:4 numa:2 l3:2 core:16",
	// fakepcilocalities
	"columns": `
		0 0 -: 0 4 8 12 16 20 24 28 32 36
		1 1 -: 1 5 9 13 17 21 25 29 33 37
		2 2 -: 2 6 10 14 18 22 26 30 34 38
		3 3 -: 3 7 11 15 19 23 27 31 35 39`,

	// Not captured, but of this world.
	"threads": "described pack:2 core:4 pu:2 order:split",
	"epyc":    "described numa:4 l3:8 core:32",
	"snc": `
		0 0 a: 0 1 2 3
		0 1 a: 4 5 6 7
		1 2 b: 8 9 10 11
		1 3 b: 12 13 14 15`,
	"hybrid": `
		0 0 a: 0+1 2+3 4 5 6 7
		slower 4-7`,
	"little": `
		0 0 a: 0 1 2 3
		slower 0-1`,
	"crossed": `
		0 0 -: 0 1
		1 1 -: 2 3
		2 0 -: 4 5
		3 1 -: 6 7`,
	"lopsided": "described pack:2 core:8\nallow 0,8-15",
	"lone": `
		0 0 a: 0 1
		0 0 -: 2
		1 1 b: 3 4
		1 1 -: 5`,
	"one":   "0 0 -: 0 1 2 3\nallow 2",
	"quota": "described core:8\nquota 1.5",
	"holes": "described pack:2 core:4\nallow 0,5-7",
}
