package doctor

import (
	"cmp"
	"slices"
	"strings"
)

// Severity is how bad a finding is.
type Severity uint8

// Severities.
const (
	Note    Severity = iota // worth knowing
	Warning                 // jobs run, worse than they could
	Error                   // some jobs cannot run
)

func (s Severity) String() string { return [...]string{"note", "warning", "error"}[s] }

// MarshalText makes a severity a word in JSON.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one thing that is wrong, on all nodes that have it.
type Finding struct {
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"` // what it is about: "memlock", "mlx5_0:1"
	Nodes    []string `json:"nodes"`
	Text     string   `json:"text"`
	Hint     string   `json:"hint"` // a command to try; empty: there is nothing to do
}

// Judge returns the problems of the nodes, in descending order of severity. A problem that several nodes have is one
// finding. If wantIB is true (--fabric ib), each problem that prevents the use of InfiniBand verbs is an error.
func Judge(nodes []Node, wantIB bool) []Finding {
	j := &verdict{wantIB: wantIB, at: map[string]int{}}
	order := map[string]int{}
	for i := range nodes {
		n := &nodes[i]
		order[n.Name] = i
		j.reached(n)
		if n.Report != nil {
			j.machines = append(j.machines, n)
			j.system(n)
			j.network(n)
			j.verbs(n)
			j.ports(n)
		}
	}
	j.same()
	j.systems()
	j.networks()
	j.fabrics()
	for _, f := range j.found {
		slices.SortStableFunc(f.Nodes, func(a, b string) int { return order[a] - order[b] })
	}
	slices.SortStableFunc(j.found, func(a, b Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	return j.found
}

// Count is how many findings there are of each severity.
func Count(findings []Finding) (count [Error + 1]int) {
	for _, f := range findings {
		count[f.Severity]++
	}
	return count
}

// verdict is the findings so far.
type verdict struct {
	wantIB   bool
	found    []Finding
	at       map[string]int // index in found, by all but the nodes
	machines []*Node        // with a report, and each machine once
}

func (j *verdict) find(s Severity, subject, text, hint string, names ...string) {
	key := strings.Join([]string{s.String(), subject, text, hint}, "\x00")
	i, known := j.at[key]
	if !known {
		i = len(j.found)
		j.at[key] = i
		j.found = append(j.found, Finding{Severity: s, Subject: subject, Text: text, Hint: hint})
	}
	j.found[i].Nodes = append(j.found[i].Nodes, names...)
}

// forVerbs is the severity of what keeps verbs from working: an error for
// those who asked for them.
func (j *verdict) forVerbs(other Severity) Severity {
	if j.wantIB {
		return Error
	}
	return other
}

// unequal says who has what, if not all have the same.
func (j *verdict) unequal(s Severity, subject, what, hint string, v values) {
	if len(v) > 1 {
		j.find(s, subject, what+": "+v.text(), hint, v.names()...)
	}
}

// group is the nodes that have the same value of something.
type group struct {
	value string
	names []string
}

// values are all groups of something, in the order of their first nodes.
type values []group

func (v *values) add(value, name string) {
	for i := range *v {
		if (*v)[i].value == value {
			(*v)[i].names = append((*v)[i].names, name)
			return
		}
	}
	*v = append(*v, group{value, []string{name}})
}

// names are all nodes that have a value.
func (v values) names() (names []string) {
	for _, g := range v {
		names = append(names, g.names...)
	}
	return names
}

// text is who has what, those of whom there are most first.
func (v values) text() string {
	groups := slices.Clone(v)
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(len(b.names), len(a.names)) })
	var parts []string
	for _, g := range groups {
		parts = append(parts, g.value+" on "+Fold(g.names))
	}
	return strings.Join(parts, ", ")
}
