package recovery

import (
	"slices"

	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// Members is the root's record of the nodes that take part in the job, and of the spares. A node that is lost or cannot
// be started is replaced by a spare, or dropped if the job may have fewer nodes
// (docs/dev/decisions/0013-late-binding.md). Each node has two indices: the original index, and the present index,
// which counts no dropped nodes.
type Members struct {
	All       job.Part                 // nodes of the job, including dropped ones, with their original hosts
	Spares    job.Nodes                // spares that are not in use yet
	Replaced  map[job.NodeIndex]string // hosts of the spares in use, by the original index of the replaced node
	Dropped   []job.NodeIndex          // original indices of dropped nodes
	Here      int                      // original index of the node that is the root's machine, or -1
	SpareHere string                   // host of the spare that is the root's machine, or ""
	reserve   job.Nodes                // all spares, including those in use
}

// NewMembers returns the members of a job that is about to start. here and spareHere are as the fields of Members.
func NewMembers(all job.Part, spares job.Nodes, here int, spareHere string) Members {
	return Members{All: all, Spares: spares, Here: here, SpareHere: spareHere, reserve: spares}
}

// TakeSpare takes the next spare for the node with the given original index. It returns false if no spare is left.
func (s *Members) TakeSpare(node job.NodeIndex) (spare job.Run, ok bool) {
	if s.Spares.Len() == 0 {
		return job.Run{}, false
	}
	spare = s.Spares.Slice(0, 1).Runs()[0]
	s.Spares = s.Spares.Slice(1, s.Spares.Len())
	if s.Replaced == nil {
		s.Replaced = map[job.NodeIndex]string{}
	}
	s.Replaced[node] = spare.Host(0)
	return spare, true
}

// Original returns the original index of the node with the given present index.
func (s *Members) Original(index job.NodeIndex) job.NodeIndex {
	for _, d := range slices.Sorted(slices.Values(s.Dropped)) {
		if d <= index {
			index++
		}
	}
	return index
}

// At returns the node with the given present index. local reports whether the node is the root's machine.
func (s *Members) At(index job.NodeIndex) (n job.Node, local bool) {
	index = s.Original(index)
	n = s.All.Nodes.At(int(index - s.All.First))
	if host, ok := s.Replaced[index]; ok {
		if at := s.reserve.Index(host); at >= 0 {
			n.User = s.reserve.At(at).User
		}
		n.Host = host
		return n, host == s.SpareHere
	}
	return n, s.Here >= 0 && index == job.NodeIndex(s.Here)
}

// host returns the present host of the node with the given present index, as a Run of one host.
func (s *Members) host(index job.NodeIndex) job.Run {
	node, _ := s.At(index)
	if i := s.reserve.Index(node.Host); i >= 0 {
		return s.reserve.Slice(i, i+1).Runs()[0]
	}
	at := int(s.Original(index) - s.All.First)
	return s.All.Nodes.Slice(at, at+1).Runs()[0]
}

// Resize sets the nodes of the job after it has shrunk or grown. nodes is a prefix of the former nodes, or contains new
// nodes after them.
func (s *Members) Resize(nodes job.Nodes) {
	s.All.Nodes = nodes
	for node := range s.Replaced {
		if int(node) >= nodes.Len() {
			delete(s.Replaced, node)
		}
	}
	if s.Here >= nodes.Len() {
		s.Here = -1 // the node of the root's machine has left, and another node may get its index
	}
}

// HasHost reports whether a node of the job is on host. It counts dropped nodes, but not hosts that a spare has
// replaced.
func (s *Members) HasHost(host string) bool {
	for node, spare := range s.Replaced {
		if spare == host {
			return true
		}
		if at := int(node - s.All.First); s.All.Nodes.At(at).Host == host {
			return false
		}
	}
	return s.All.Nodes.Index(host) >= 0
}

// Membership returns the message that tells the agents the final nodes of the job j. It also lets them start the ranks.
func (s *Members) Membership(j *job.Job) wire.Membership {
	m := wire.Membership{FirstHost: j.FirstHost}
	slices.Sort(s.Dropped)
	first, dropped := s.All.First, []wire.NodeSpan(nil)
	for _, node := range s.Dropped {
		if node == first {
			first++
		}
		if last := len(dropped) - 1; last >= 0 && dropped[last].End() == node {
			dropped[last].Count++
			continue
		}
		dropped = append(dropped, wire.NodeSpan{First: node, Count: 1})
	}
	m.Dropped = wire.NewNodeSpans(dropped...)
	if j.Hosts != "" {
		m.Hosts = s.Hosts()
	}
	if host, ok := s.Replaced[first]; ok {
		m.FirstHost = host
	} else if first != s.All.First {
		m.FirstHost = s.All.Nodes.At(int(first - s.All.First)).Host
	}
	return m
}

// Hosts returns the host list of all nodes that take part, without dropped nodes and with the spares in use.
func (s *Members) Hosts() string {
	var runs []job.Run
	for i := range s.All.Nodes.Len() {
		node := s.All.First + job.NodeIndex(i)
		if _, dropped := slices.BinarySearch(s.Dropped, node); dropped {
			continue
		}
		run := s.All.Nodes.Slice(i, i+1).Runs()[0]
		if host, ok := s.Replaced[node]; ok {
			run = job.Run{Prefix: host, Count: 1, Ranks: run.Ranks}
		}
		runs = append(runs, run)
	}
	return job.NewNodes(0, runs).HostList()
}
