package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// placement is a rank's line of --report-bindings --json.
type placement struct {
	Rank    job.Rank `json:"rank"`
	Host    string   `json:"host"`
	CPUs    string   `json:"cpus"`          // that the kernel lets it run on
	Mems    string   `json:"numa_nodes"`    // that the kernel lets it have memory of
	Policy  string   `json:"memory_policy"` // "interleave 0-1", "prefer 2"; empty: the node that each CPU is on
	HCA     string   `json:"hca"`           // "mlx5_0:1"; empty: none
	Drawing string   `json:"drawing"`
	Ended   bool     `json:"ended,omitempty"` // before the kernel could be asked: this is what it was started with
}

// node is a node's line of --display topo --json.
type node struct {
	Host     string          `json:"host"`
	Topology json.RawMessage `json:"topology"` // as of ibrun --display topo --json
}

// placed shows where one node's ranks run.
func (r *Reporter) placed(m wire.Placed) {
	if m.Picture != "" && r.JSON {
		_ = plain.WriteJSON(r.To, node{m.Host, json.RawMessage(m.Picture)})
	} else if m.Picture != "" {
		fmt.Fprintf(r.To, "ibrun: %s:\n", plain.Text(m.Host))
		for line := range strings.Lines(m.Picture) {
			fmt.Fprintf(r.To, "  %s\n", plain.Text(strings.TrimSuffix(line, "\n")))
		}
	}
	for p := range m.Ranks.All() {
		rank := r.Layout.Rank(p.Rank)
		if r.JSON {
			_ = plain.WriteJSON(r.To, placement{rank, m.Host, p.CPUs, p.Mems, p.Policy, p.HCA, p.Drawing, p.Ended})
			continue
		}
		r.Line("%s", placeLine(m.Host, rank, p))
	}
}

// Notice shows what a node has to say, once: nodes are alike.
func (r *Reporter) Notice(m rankwire.Notice) {
	if !r.Quiet && !slices.Contains(r.noted, m.Text) {
		r.noted = append(r.noted, m.Text)
		r.Line("%s: %s", m.Host, m.Text)
	}
}

// placeLine is where a rank runs, for the user.
func placeLine(host string, rank job.Rank, p wire.Placement) string {
	text := fmt.Sprintf("rank %d on %s: CPUs %s, NUMA nodes %s", rank, host, p.CPUs, p.Mems)
	if p.Policy != "" {
		text += " (" + p.Policy + ")"
	}
	if p.HCA != "" {
		text += ", HCA " + p.HCA
	}
	if p.Ended {
		text += ", as it was started: it has ended"
	}
	return text + "  " + p.Drawing
}

// Predicted shows one node's ranks as they would be placed.
func (r *Reporter) Predicted(n job.Node, m wire.Placed) {
	m.Host = n.Host
	ranks := slices.Collect(m.Ranks.All())
	for i := range ranks {
		ranks[i].Rank = n.First + job.Slot(i)
	}
	m.Ranks = wire.NewPlacements(ranks...)
	r.placed(m)
}
