package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"ibrun/test/bench/figure"
)

// results is what was measured, as it is kept.
type results struct {
	Rows []row `json:"rows"`
}

// row is one case: the same job in several ways.
type row struct {
	Group   string `json:"group"`
	Nodes   int    `json:"nodes"`
	PerNode int    `json:"ranks_per_node"`
	Rounds  int    `json:"rounds"`
	Machine string `json:"machine"`
	Ways    []way  `json:"ways"`
}

// way is one contestant. Times are in milliseconds.
type way struct {
	Name   string  `json:"name"`
	Median float64 `json:"median_ms"`
	Least  float64 `json:"least_ms"`
	CPU    float64 `json:"cpu_ms_per_node"` // of all hosts, the front included
}

func wayOf(name string, walls, cpus []time.Duration, nodes int) way {
	return way{name, ms(figure.Median(walls)), ms(slices.Min(walls)), ms(figure.Median(cpus) / time.Duration(nodes))}
}

// ms rounds to tens of microseconds: nothing here is known better.
func ms(d time.Duration) float64 { return figure.Milliseconds(d.Round(10 * time.Microsecond)) }

func (r *row) find(name string) (way, bool) {
	i := slices.IndexFunc(r.Ways, func(w way) bool { return w.Name == name })
	if i < 0 {
		return way{}, false
	}
	return r.Ways[i], true
}

func (r *row) title() string {
	how := map[string]string{
		"ssh": "ssh as shipped", "tuned": "ssh with curve25519 for all", "rsh": "rsh stand-in",
		"latency": "rsh stand-in, 50 ms more for each session",
		"half":    "rsh stand-in, 500 ms more for each session",
		"second":  "rsh stand-in, 1 s more for each session",
		"own":     "rsh stand-in, ibrun's own part", "own-ssh": "ssh, ibrun's own part",
	}[r.Group]
	if r.Group == "here" {
		return fmt.Sprintf("this machine, %d of hostname", r.PerNode)
	}
	return fmt.Sprintf("%d nodes x %d, %s", r.Nodes, r.PerNode, how)
}

func (r *row) print() {
	fmt.Printf("%s, medians of %d rounds in turns:\n", r.title(), r.Rounds)
	mine, _ := r.find(ours)
	for _, w := range r.Ways {
		fmt.Printf("  %-20s %9.1f ms (least %9.1f), %5.2f of ibrun's time", w.Name, w.Median, w.Least,
			w.Median/mine.Median)
		if mine.CPU > 0 {
			fmt.Printf("; %7.2f ms CPU per node, %5.2f of its CPU", w.CPU, w.CPU/mine.CPU)
		}
		fmt.Println()
	}
}

// mostOwn is what ibrun may take per node besides sessions and ranks, in milliseconds.
const mostOwn = 3

// judge says which bounds the row keeps.
func (r *row) judge(b *figure.Bounds) {
	mine, _ := r.find(ours)
	bound := func(name string, least float64) {
		theirs, there := r.find(name)
		if !there {
			return
		}
		b.AtLeast(r.title()+": "+name+" / ibrun", theirs.Median/mine.Median, least)
		if copied, there := r.find(uninstalled); there {
			b.AtLeast(r.title()+": "+name+" / "+uninstalled, theirs.Median/copied.Median, least)
		}
	}
	switch {
	case r.Group == "ssh" && r.Nodes >= 64:
		bound(hydra, 3.2)
		bound(openMPI, 6)
	case r.Group == "tuned":
		bound(hydra, 1.2)
	case r.Group == "rsh" && r.Nodes == 64:
		bound(hydra, 1.1)
	case r.Group == "rsh" && r.Nodes == 256:
		bound(hydra, 1)
	case r.Group == "half" || r.Group == "second" || r.Group == "here":
		bound(hydra, 1)
	case r.Group == "latency":
		bound(hydra, 2)
	case r.Group == "own" || r.Group == "own-ssh":
		floor, _ := r.find(floorName)
		b.AtMost(r.title()+": ms of CPU per node beyond bare sessions", mine.CPU-floor.CPU, mostOwn)
	}
}

// load reads what is kept; nothing yet is no error.
func load(file string) (kept *results, err error) {
	kept = &results{}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return kept, nil
	}
	if err == nil {
		err = json.Unmarshal(text, kept)
	}
	return kept, err
}

// order is that of the plot.
var order = []string{"ssh", "tuned", "rsh", "latency", "half", "second", "here", "own", "own-ssh"}

// put takes a row in place of an earlier one of the same case.
func (k *results) put(r row) {
	k.Rows = slices.DeleteFunc(k.Rows, func(o row) bool {
		return o.Group == r.Group && o.Nodes == r.Nodes && o.PerNode == r.PerNode
	})
	k.Rows = append(k.Rows, r)
	rank := func(r row) int { return slices.Index(order, r.Group)<<32 + r.Nodes<<8 + r.PerNode }
	slices.SortFunc(k.Rows, func(a, b row) int { return rank(a) - rank(b) })
}

func (k *results) save(file string) error {
	text, err := json.MarshalIndent(k, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
