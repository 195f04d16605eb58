package pmixserver

import (
	"slices"
	"strconv"
	"strings"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/internal/hostlist"
	"ibrun/internal/job"
)

// layout is what clients are told of the job.
type layout struct {
	job   *pmix.Job // made for the first client
	place Placement
	hosts job.Nodes // names alone, in the order of the job's nodes; empty: not known
}

// hostsOf reads the hosts of a job; none if they are not told, or are not those of its nodes.
func hostsOf(j *job.Job) job.Nodes {
	if j.Hosts == "" {
		return job.Nodes{}
	}
	entries, err := hostlist.Inline(j.Hosts)
	if err != nil {
		return job.Nodes{}
	}
	var runs []job.Run
	for _, e := range entries {
		run := job.Run{Prefix: e.Prefix, Suffix: e.Suffix, Width: uint8(e.Width), Lo: e.Lo, Count: e.Count}
		runs = append(runs, run)
	}
	if n := job.NewNodes(0, runs); uint32(n.Len()) == j.Nodes {
		return n
	}
	return job.Nodes{}
}

// Placement is what is known of a node when its ranks have been placed.
type Placement struct {
	Folder         string // for temporary files; empty: not told
	Oversubscribed bool
	Ranks          []RankPlacement // of the node, by slot; none: not known
	Topology       func() string   // the node as XML of hwloc, for the first client; nil or empty: not told
}

// RankPlacement is where one rank runs, in the words of pmix.RankPlace.
type RankPlacement struct{ CPUs, Locality, Folder string }

// Placed takes the placement, before the first client joins.
func (s *Server) Placed(p Placement) { s.layout.place = p }

// describe returns the description of the job that each client gets when it joins.
func (s *Server) describe() *pmix.Job {
	if s.layout.job != nil {
		return s.layout.job
	}
	j := &pmix.Job{
		Namespace: s.namespace, ID: s.job.ID, Size: s.job.Size, Universe: s.job.Size,
		Apps: apps(s.job), NodeCount: s.job.Nodes, Extra: programsOf(s.job), Parent: parentOf(s.job),
	}
	placed := &s.layout.place
	j.TmpDir, j.JobDir, j.Leader = placed.Folder, placed.Folder, pmix.Rank(s.ranks[0].number)
	if placed.Topology != nil {
		if text := placed.Topology(); text != "" {
			j.Extra = append(j.Extra, pmix.Attr{Key: keyTopology, Value: pmix.TextValue(text)})
		}
	}
	own := s.nodeOf(s.index, s.node.Host)
	own.Oversubscribed = placed.Oversubscribed
	j.Nodes = []pmix.Node{own}
	first, count := s.node.First, s.node.Ranks
	if s.job.Size <= maxFull {
		first, count = 0, s.job.Size
		for i := range s.layout.hosts.Len() {
			if at := job.NodeIndex(i); at != s.index {
				j.Nodes = append(j.Nodes, s.nodeOf(at, s.layout.hosts.At(i).Host))
			}
		}
	}
	for i := range count {
		j.Ranks = append(j.Ranks, s.placeOf(first+job.Slot(i)))
	}
	s.layout.job = j
	return j
}

// keyTopology is PMIX_HWLOC_XML_V2. libpmix 5 looks for it in the job information while a client
// joins, and else lets hwloc read all of sysfs, in each rank. Open MPI 4 asks for it later.
const keyTopology = "pmix.hwlocxml2"

// nodeOf is a node of the job with its ranks.
func (s *Server) nodeOf(i job.NodeIndex, host string) pmix.Node {
	n := pmix.Node{ID: uint32(i), Host: host}
	first, count := s.job.Layout.SlotsOn(i)
	for slot := range count {
		n.Ranks = append(n.Ranks, pmix.Rank(s.job.Layout.Rank(first+job.Slot(slot))))
	}
	return n
}

// apps is the number of the job's applications.
func apps(j *job.Job) uint32 {
	last := uint32(0)
	for i := range j.Programs {
		last = max(last, j.Programs[i].App)
	}
	return last + 1
}

// programsOf is what Open MPI 5 asks for if a job has several applications: the sizes and the first
// ranks of these, by names of its own.
func programsOf(j *job.Job) []pmix.Attr {
	sizes, firsts := j.Apps()
	if len(sizes) < 2 {
		return nil
	}
	return []pmix.Attr{
		{Key: "OMPI_APP_SIZES", Value: pmix.TextValue(job.Words(sizes))},
		{Key: "OMPI_FIRST_RANKS", Value: pmix.TextValue(job.Words(firsts))},
	}
}

// keyParent is the key of the KVS by which a spawned job learns the client of PMIx that has spawned
// it: rank and namespace.
const keyParent = "ibrun.pmix.parent"

func parentPair(namespace string, r *rank) job.KeyValue {
	return job.KeyValue{Key: keyParent, Value: strconv.FormatUint(uint64(r.number), 10) + " " + namespace}
}

// parentOf is the client that has spawned a job; nil: none has.
func parentOf(j *job.Job) *pmix.Proc {
	for _, p := range j.Preput {
		number, namespace, _ := strings.Cut(p.Value, " ")
		if n, err := strconv.ParseUint(number, 10, 32); p.Key == keyParent && err == nil {
			return &pmix.Proc{Namespace: namespace, Rank: pmix.Rank(n)}
		}
	}
	return nil
}

// placeOf is where a rank is and what it runs.
func placeOf(j *job.Job, slot job.Slot) pmix.RankPlace {
	l := j.Layout
	number, node := l.Rank(slot), l.NodeOf(slot)
	first, _ := l.SlotsOn(node)
	p := pmix.RankPlace{Rank: pmix.Rank(number), LocalRank: uint16(slot - first), NodeID: uint32(node)}
	for i := range j.Programs {
		if of := &j.Programs[i]; of.Has(number) {
			p.App, p.AppRank = of.App, pmix.Rank(of.Offset+uint32(number-of.First))
		}
	}
	return p
}

// placeOf is the same, with what only the node knows.
func (s *Server) placeOf(slot job.Slot) pmix.RankPlace {
	p := placeOf(s.job, slot)
	if s.layout.hosts.Len() > 0 {
		p.Host = s.layout.hosts.At(int(p.NodeID)).Host
	}
	if s.here(slot) {
		p.Host = s.node.Host
		if all := s.layout.place.Ranks; int(slot-s.node.First) < len(all) {
			at := all[slot-s.node.First]
			p.Locality, p.Folder = at.Locality, at.Folder
			if at.CPUs != "" {
				p.CPUs = "hwloc:" + at.CPUs
			}
		}
	}
	return p
}

// placeAttrs returns the attributes of p. ok reports whether one of them has the given key.
func placeAttrs(p pmix.RankPlace, key string) (attrs []pmix.Attr, ok bool) {
	attrs = p.Attrs()
	return attrs, slices.ContainsFunc(attrs, func(a pmix.Attr) bool { return a.Key == key })
}
