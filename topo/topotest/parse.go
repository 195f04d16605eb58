package topotest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ibrun/internal/cpuset"
)

// word is one NAME:VALUE of the text form.
type word struct {
	name string
	get  func(Machine) string // empty: not worth saying
	set  func(*Machine, string) error
}

var words = []word{
	count("pack", func(m *Machine) *int { return &m.Packages }),
	count("die", func(m *Machine) *int { return &m.DiesPerPackage }),
	{"numa", getNUMA, setNUMA},
	count("l3", func(m *Machine) *int { return &m.L3PerPackage }),
	count("l2", func(m *Machine) *int { return &m.CoresPerL2 }),
	count("core", func(m *Machine) *int { return &m.CoresPerPackage }),
	count("slow", func(m *Machine) *int { return &m.SlowPerPackage }),
	count("pu", func(m *Machine) *int { return &m.ThreadsPerCore }),
	count("memonly", func(m *Machine) *int { return &m.MemoryOnly }),
	count("mib", func(m *Machine) *int { return &m.MiBPerNUMA }),
	{"order", getOrder, setOrder},
	set("cpuholes", func(m *Machine) *cpuset.Set { return &m.CPUHoles }),
	set("coreholes", func(m *Machine) *cpuset.Set { return &m.CoreHoles }),
	set("packholes", func(m *Machine) *cpuset.Set { return &m.PackageHoles }),
	set("numaholes", func(m *Machine) *cpuset.Set { return &m.NUMAHoles }),
	set("offline", func(m *Machine) *cpuset.Set { return &m.Offline }),
	set("allowed", func(m *Machine) *cpuset.Set { return &m.Allowed }),
	set("mems", func(m *Machine) *cpuset.Set { return &m.AllowedMems }),
	set("affinity", func(m *Machine) *cpuset.Set { return &m.Affinity }),
	number("quota", func(m *Machine) *float64 { return &m.Quota }),
	number("load", func(m *Machine) *float64 { return &m.Load }),
	count("cgroup", func(m *Machine) *int { return &m.Cgroup }),
	flag("old", func(m *Machine) *bool { return &m.Old }),
}

// Parse reads the text form: words with white space between them, in any order.
//
//	pack:2 die:1 numa:2 l3:2 l2:1 core:8 pu:2   parts of a package; but l2 is the cores of one, and pu the threads of a core
//	numa:1/2  numa:none  l3:none                a NUMA node for two packages; no NUMA; no L3
//	slow:4  memonly:1  mib:8192                 SlowPerPackage, MemoryOnly, MiBPerNUMA
//	order:adjacent|split|cyclic                 Order
//	cpuholes:4-7 coreholes:3 packholes:1 numaholes:1-7
//	offline:3,7 allowed:0-15 mems:0 affinity:0-3 quota:2.5 load:0.5 cgroup:1 old:yes
//	hca:mlx5_0,numa=1,rate=200,lid=0x3a4,down   ports in order: lid= is up, down is not, roce=eth0 is Ethernet
//	hca:mlx4_0,pci=pci0000:80/0000:80:02.2/0000:82:00.0,lid=7
//	link:ib0,hca=mlx5_0  link:eth0,numa=0,speed=25000,mtu=9000,down  link:docker0,virtual
//
// It fails on words that it does not know, and on what Check does not like.
func Parse(text string) (Machine, error) {
	var m Machine
	for _, field := range strings.Fields(text) {
		name, value, _ := strings.Cut(field, ":")
		var err error
		i := slices.IndexFunc(words, func(w word) bool { return w.name == name })
		switch {
		case i >= 0:
			err = words[i].set(&m, value)
		case name == "hca":
			err = m.addHCA(value)
		case name == "link":
			err = m.addLink(value)
		default:
			err = fmt.Errorf("no such word")
		}
		if err != nil {
			return Machine{}, fmt.Errorf("%q: %w", field, err)
		}
	}
	return m, m.Check()
}

// Must is Parse for texts that are part of a test. It panics.
func Must(text string) Machine {
	m, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return m
}

// String is the text form. What that cannot say is left out: states of ports but
// up and down, LMCs, several rates of one HCA, tables of GIDs and keys.
func (m Machine) String() string {
	var out []string
	for _, w := range words {
		if value := w.get(m); value != "" {
			out = append(out, w.name+":"+value)
		}
	}
	for _, h := range m.HCAs {
		out = append(out, "hca:"+strings.Join(h.parts(), ","))
	}
	for _, l := range m.Links {
		out = append(out, "link:"+strings.Join(l.parts(), ","))
	}
	return strings.Join(out, " ")
}

func count(name string, at func(*Machine) *int) word {
	get := func(m Machine) string {
		switch n := *at(&m); n {
		case 0:
			return ""
		case None:
			return "none"
		default:
			return strconv.Itoa(n)
		}
	}
	return word{name, get, func(m *Machine, value string) (err error) {
		if value == "none" {
			*at(m) = None
			return nil
		}
		*at(m), err = strconv.Atoi(value)
		return err
	}}
}

func getNUMA(m Machine) string {
	if m.PackagesPerNUMA > 1 {
		return fmt.Sprintf("1/%d", m.PackagesPerNUMA)
	}
	return count("", func(m *Machine) *int { return &m.NUMAPerPackage }).get(m)
}

func setNUMA(m *Machine, value string) error {
	at := func(m *Machine) *int { return &m.NUMAPerPackage }
	if packages, ok := strings.CutPrefix(value, "1/"); ok {
		value, at = packages, func(m *Machine) *int { return &m.PackagesPerNUMA }
	}
	return count("", at).set(m, value)
}

func set(name string, at func(*Machine) *cpuset.Set) word {
	return word{name, func(m Machine) string { return at(&m).String() }, func(m *Machine, value string) (err error) {
		*at(m), err = cpuset.ParseList(value)
		return err
	}}
}

func number(name string, at func(*Machine) *float64) word {
	get := func(m Machine) string {
		if *at(&m) == 0 {
			return ""
		}
		return strconv.FormatFloat(*at(&m), 'g', -1, 64)
	}
	return word{name, get, func(m *Machine, value string) (err error) {
		*at(m), err = strconv.ParseFloat(value, 64)
		return err
	}}
}

// flag is a word with only one value.
func flag(name string, at func(*Machine) *bool) word {
	get := func(m Machine) string {
		if *at(&m) {
			return "yes"
		}
		return ""
	}
	return word{name, get, func(m *Machine, value string) error {
		if value != "yes" {
			return fmt.Errorf("it can only be yes")
		}
		*at(m) = true
		return nil
	}}
}

var orders = []string{"adjacent", "split", "cyclic"}

func getOrder(m Machine) string {
	if m.Order == Adjacent {
		return ""
	}
	return orders[m.Order]
}

func setOrder(m *Machine, value string) error {
	i := slices.Index(orders, value)
	if i < 0 {
		return fmt.Errorf("not one of %s", strings.Join(orders, ", "))
	}
	m.Order = Order(i)
	return nil
}
