package wire

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/frame"
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

// Placements are the places of ranks.
type Placements = frame.List[Placement, placementCodec]

type placementCodec struct{}

func (Placed) Kind() frame.Kind { return KindPlaced }

func (m Placed) Encode(w *frame.Encoder) {
	w.U32(uint32(m.Node))
	w.Text(m.Host)
	w.Text(m.Picture)
	m.Ranks.Encode(w)
}

// NewPlacements packs the places of ranks.
func NewPlacements(ranks ...Placement) Placements {
	return frame.ListOf[Placement, placementCodec](slices.Values(ranks))
}

func (placementCodec) Encode(w *frame.Encoder, p Placement) {
	w.U32(uint32(p.Rank))
	w.Bool(p.Ended)
	for _, s := range []string{p.CPUs, p.Mems, p.Policy, p.HCA, p.Drawing} {
		w.Text(s)
	}
}

func (placementCodec) Decode(r *frame.Decoder) Placement {
	return Placement{
		Rank: job.Slot(r.U32()), Ended: r.Bool(), CPUs: r.Text(), Mems: r.Text(), Policy: r.Text(), HCA: r.Text(),
		Drawing: r.Text(),
	}
}

func parsePlaced(r *frame.Decoder) frame.Message {
	return Placed{Node: job.NodeIndex(r.U32()), Host: r.Text(), Picture: r.Text(),
		Ranks: frame.DecodeList[Placement, placementCodec](r, 7, nil)}
}

func (m Placed) String() string {
	return fmt.Sprintf("Placed node=%d host=%q ranks=%d", m.Node, m.Host, m.Ranks.Len())
}

func encodeBinding(w *frame.Encoder, b job.Binding) {
	w.Byte(byte(b.Map))
	w.Bool(b.Fill)
	w.Byte(byte(b.Rank))
	w.Byte(byte(b.Bind))
	w.U32(b.PE)
	w.U32(b.PerObj)
	w.Texts(b.CPUs)
	w.Texts(b.Slots)
	w.Bool(b.Overload)
	w.Text(b.HCA)
	w.Bool(b.Report)
	w.Bool(b.Topo)
	w.Bool(b.Data)
}

func decodeBinding(r *frame.Decoder) job.Binding {
	b := job.Binding{
		Map: job.Object(r.Byte()), Fill: r.Bool(), Rank: job.Object(r.Byte()), Bind: job.Object(r.Byte()),
		PE: r.U32(), PerObj: r.U32(), CPUs: r.Texts(), Slots: r.Texts(), Overload: r.Bool(), HCA: r.Text(),
		Report: r.Bool(), Topo: r.Bool(), Data: r.Bool(),
	}
	if !b.Map.Valid() || !b.Rank.Valid() || !b.Bind.Valid() {
		r.Fail(frame.ErrRange)
	}
	return b
}
