package pmix

import (
	"strconv"
	"strings"
)

// Job is what a client is told of a job when it joins. The full form has all nodes and all ranks,
// about 150 bytes for each rank. The lean form has the client's own node and the ranks there; a
// client asks by Get for what it lacks. Nodes and Ranks decide which form it is.
type Job struct {
	Namespace string
	ID        string // the job's name for users
	Size      uint32 // ranks
	Universe  uint32 // ranks that could run
	Apps      uint32 // programs
	NodeCount uint32
	Parent    *Proc  // the process that spawned the job; nil: none did
	TmpDir    string // folder for temporary files of the session; empty: not told
	JobDir    string // the job's folder below it; empty: not told
	Extra     []Attr // of the whole job, such as variables that a library asks for by name
	Nodes     []Node
	Leader    Rank // the lowest rank of the client's node
	Ranks     []RankPlace

	written map[Encoding][]byte // by the first client of each encoding
}

// packed are the job's pairs, the same for all clients of an encoding: a Job that a client has been
// told does not change.
func (j *Job) packed(enc Encoding) []byte {
	if j.written[enc] == nil {
		w := writer{enc: enc}
		j.pairs(&w)
		if j.written == nil {
			j.written = map[Encoding][]byte{}
		}
		j.written[enc] = w.b
	}
	return j.written[enc]
}

// Node is a node of a job.
type Node struct {
	ID             uint32
	Host           string // as in the environment variable PMIX_HOSTNAME of its ranks
	Ranks          []Rank // of the job
	Oversubscribed bool   // it has more ranks than CPUs: who waits should yield
}

// RankPlace is a rank and where it runs.
type RankPlace struct {
	Rank      Rank
	App       uint32 // which of the job's programs it runs, from 0
	AppRank   Rank   // among the ranks of its program
	LocalRank uint16 // among the ranks of its node
	NodeID    uint32
	Host      string // empty: not known
	Locality  string // indexes of what its CPUs belong to, as "NM0:SK0:CR0-1"; empty: not bound
	CPUs      string // as "hwloc:0-3"; empty: not bound
	Folder    string // for temporary files; empty: not told
}

// pairs writes the job as pairs. Clients need sizes, local ranks and local peers in these types.
func (j *Job) pairs(w *writer) {
	w.pair("pmix.job.size", Uint32Value(j.Size))
	w.pair("pmix.univ.size", Uint32Value(j.Universe))
	w.pair("pmix.max.size", Uint32Value(j.Size))
	w.pair("pmix.job.napps", Uint32Value(j.Apps))
	w.pair("pmix.num.nodes", Uint32Value(j.NodeCount))
	w.pair("pmix.jobid", TextValue(j.ID))
	if j.Parent != nil {
		w.pair("pmix.spawned", BoolValue(true))
		w.pair("pmix.parent", ProcValue(*j.Parent))
	}
	for _, folder := range []struct{ key, name string }{{"pmix.tmpdir", j.TmpDir}, {"pmix.nsdir", j.JobDir}} {
		if folder.name != "" {
			w.pair(folder.key, TextValue(folder.name))
		}
	}
	for _, a := range j.Extra {
		w.pair(a.Key, a.Value)
	}
	for i := range j.Nodes {
		w.pair("pmix.node.arr", j.Nodes[i].value())
	}
	if len(j.Nodes) > 0 {
		w.pair("pmix.lldr", RankValue(j.Leader))
	}
	for i := range j.Ranks {
		w.pair("pmix.pblob", j.Ranks[i].value(w.enc))
	}
}

// value is a node as an array of attributes.
func (n *Node) value() Value {
	var peers strings.Builder
	for i, rank := range n.Ranks {
		if i > 0 {
			peers.WriteByte(',')
		}
		peers.WriteString(strconv.FormatUint(uint64(rank), 10))
	}
	attrs := []Attr{
		{Key: "pmix.hname", Value: TextValue(n.Host)},
		{Key: "pmix.nodeid", Value: Uint32Value(n.ID)},
		{Key: "pmix.lpeers", Value: TextValue(peers.String())},
		{Key: "pmix.local.size", Value: Uint32Value(uint32(len(n.Ranks)))},
		{Key: "pmix.node.size", Value: Uint32Value(uint32(len(n.Ranks)))},
	}
	if n.Oversubscribed {
		attrs = append(attrs, Attr{Key: "pmix.ndosub", Value: BoolValue(true)})
	}
	return AttrsValue(attrs...)
}

// Attrs are what is told of a rank, as a Get for one of these keys wants them too.
func (p *RankPlace) Attrs() []Attr {
	attrs := []Attr{
		{Key: "pmix.rank", Value: RankValue(p.Rank)},
		{Key: "pmix.grank", Value: RankValue(p.Rank)},
		{Key: "pmix.apprank", Value: RankValue(p.AppRank)},
		{Key: "pmix.appnum", Value: Uint32Value(p.App)},
		{Key: "pmix.lrank", Value: Uint16Value(p.LocalRank)},
		{Key: "pmix.nrank", Value: Uint16Value(p.LocalRank)},
		{Key: "pmix.nodeid", Value: Uint32Value(p.NodeID)},
	}
	for _, a := range []struct{ key, text string }{
		{"pmix.hname", p.Host}, {"pmix.locstr", p.Locality}, {"pmix.cpuset", p.CPUs}, {"pmix.pdir", p.Folder},
	} {
		if a.text != "" {
			attrs = append(attrs, Attr{Key: a.key, Value: TextValue(a.text)})
		}
	}
	return attrs
}

// value is a rank as a byte object, whose contents are in the encoding of the client.
func (p *RankPlace) value(enc Encoding) Value {
	w := writer{enc: enc}
	w.count(1)
	w.u32(uint32(p.Rank))
	for _, a := range p.Attrs() {
		w.pair(a.Key, a.Value)
	}
	return BytesValue(w.b)
}
