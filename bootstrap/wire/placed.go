package wire

import (
	"fmt"
	"slices"

	"ibrun/job"
)

// Placed says where the ranks of one node run, as its kernel tells after they
// were started. It is sent only if somebody asked.
type Placed struct {
	Node    job.NodeIndex
	Host    string
	Picture string // the node, drawn or as JSON; empty unless --display topo
	Ranks   Placements
}

// Placement is one rank's part of Placed.
type Placement struct {
	Rank    job.Slot
	CPUs    string // Cpus_allowed_list of /proc/PID/status
	Mems    string // Mems_allowed_list
	Ended   bool   // before the kernel could be asked: CPUs and Mems are those that it was started with
	Policy  string // of memory: "interleave 0-1", "prefer 2"; empty: the kernel's default, which is local
	HCA     string // "mlx5_0:1"; empty: none
	Drawing string
}

func (Placed) Kind() Kind { return KindPlaced }

func (m Placed) append(w *writer) {
	w.node(m.Node)
	w.string(m.Host)
	w.string(m.Picture)
	appendList(w, m.Ranks)
}

// NewPlacements packs the places of ranks.
func NewPlacements(ranks ...Placement) Placements {
	return listOf[Placement, placementCodec](slices.Values(ranks))
}

func (placementCodec) append(w *writer, p Placement) {
	w.slot(p.Rank)
	w.bool(p.Ended)
	for _, s := range []string{p.CPUs, p.Mems, p.Policy, p.HCA, p.Drawing} {
		w.string(s)
	}
}

func (placementCodec) read(r *reader) Placement {
	return Placement{
		Rank: r.slot(), Ended: r.bool(), CPUs: r.string(), Mems: r.string(), Policy: r.string(), HCA: r.string(), Drawing: r.string(),
	}
}

func parsePlaced(r *reader) Message {
	return Placed{Node: r.node(), Host: r.string(), Picture: r.string(), Ranks: parseList[Placement, placementCodec](r, 7, nil)}
}

func (m Placed) String() string {
	return fmt.Sprintf("Placed node=%d host=%q ranks=%d", m.Node, m.Host, m.Ranks.Len())
}

// Notice is what a node has to say to the user: a sentence that ends nothing. A rank leaves Host empty.
type Notice struct{ Host, Text string }

func (Notice) Kind() Kind { return KindNotice }

func (m Notice) append(w *writer) {
	w.userText(m.Host)
	w.userText(m.Text)
}

func parseNotice(r *reader) Message { return Notice{Host: r.userText(), Text: r.userText()} }

func (m Notice) String() string { return fmt.Sprintf("Notice host=%q text=%q", m.Host, m.Text) }

func appendBinding(w *writer, b job.Binding) {
	w.byte(byte(b.Map))
	w.bool(b.Fill)
	w.byte(byte(b.Rank))
	w.byte(byte(b.Bind))
	w.u32(b.PE)
	w.u32(b.PerObj)
	w.strings(b.CPUs)
	w.strings(b.Slots)
	w.bool(b.Overload)
	w.string(b.HCA)
	w.bool(b.Report)
	w.bool(b.Topo)
	w.bool(b.Data)
}

func parseBinding(r *reader) job.Binding {
	b := job.Binding{
		Map: job.Object(r.byte()), Fill: r.bool(), Rank: job.Object(r.byte()), Bind: job.Object(r.byte()),
		PE: r.u32(), PerObj: r.u32(), CPUs: r.strings(), Slots: r.strings(), Overload: r.bool(), HCA: r.string(), Report: r.bool(), Topo: r.bool(), Data: r.bool(),
	}
	if !b.Map.Valid() || !b.Rank.Valid() || !b.Bind.Valid() {
		r.fail(ErrRange)
	}
	return b
}
