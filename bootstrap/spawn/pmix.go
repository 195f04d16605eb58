package spawn

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"ibrun/bootstrap/clients/pmixserver"
	"ibrun/internal/cpuset"
	"ibrun/internal/job"
	"ibrun/internal/proc"
	"ibrun/internal/safefile"
	"ibrun/topo"
	"ibrun/topo/show"
)

// pmixPort is the port for clients of PMIx. It is opened for the first rank that may be such a client.
type pmixPort struct {
	port

	scratchMu sync.Mutex
	folder    *safefile.Folder // nil before a rank needs the folder, and after its removal
	over      bool             // the folder was removed and must not be made again
	files     map[uint32][]safefile.File
}

// offerPMIx opens the port of PMIx once. When the first client connects, the port makes the job's folder and reports
// pmixserver.Placement, before it reports anything that the client sends. The folder is made that late because most
// programs that could be clients never connect.
func (s *Set) offerPMIx() error {
	p := &s.PMIx
	if p.tried {
		return p.err
	}
	p.tried, p.name, p.events = true, "the port of PMIx", s.cfg.Events
	p.received = p.events.PMIxReceived
	p.closed = func(call uint32) {
		p.dropFiles(call)
		p.events.PMIxClosed(call)
	}
	node, ranks := s.placement(), make([]job.Rank, len(s.ranks))
	for i, r := range s.ranks {
		ranks[i] = r.rank
	}
	p.first = func() {
		p.makeFolder(&node, ranks)
		p.events.PMIxPlaced(node)
	}
	if p.err = p.open(); p.err != nil {
		s.cfg.Events.Warn(p.err.Error())
	}
	return p.err
}

// makeFolder makes the job's folder and in it a folder for each rank. It stores the paths of all these folders in
// node.
func (p *pmixPort) makeFolder(node *pmixserver.Placement, ranks []job.Rank) {
	folder, err := safefile.Make(os.TempDir())
	if err != nil {
		p.events.Warn(fmt.Sprintf("clients of PMIx get no folder for temporary files: %v", err))
		return
	}
	node.Folder = folder.Path()
	for i, r := range ranks {
		own := filepath.Join(node.Folder, num(r))
		if os.Mkdir(own, 0o700) == nil {
			node.Ranks[i].Folder = own
		}
	}
	p.scratchMu.Lock()
	defer p.scratchMu.Unlock()
	if p.over {
		folder.Remove()
		return
	}
	p.folder, p.files = folder, map[uint32][]safefile.File{}
}

// topology returns the topology of this node as XML of hwloc. It returns "" if hwloc could not use the XML.
func (s *Set) topology() string {
	m := s.machine
	if s.alone {
		m = topo.Read(proc.Here())
	}
	if !show.ServesHwloc(m) {
		return ""
	}
	return show.HwlocXML(m)
}

// placement returns the description of the node and its ranks for PMIx clients, without the paths that makeFolder
// adds.
func (s *Set) placement() pmixserver.Placement {
	n := pmixserver.Placement{Oversubscribed: int(s.cfg.Node.Ranks) > s.machine.Allowed.Len(), Topology: s.topology}
	for _, r := range s.ranks {
		var at pmixserver.RankPlacement
		if cpus := r.place.thread.CPUs; !cpus.Empty() {
			at.CPUs, at.Locality = cpus.String(), locality(s.machine, cpus)
		}
		n.Ranks = append(n.Ranks, at)
	}
	return n
}

// locality describes which parts of a machine, such as sockets and caches, contain the given CPUs. Clients of PMIx
// compare these strings for two ranks of a node. For each level, the string has the name of the level and the numbers
// of the parts.
func locality(m *topo.Machine, cpus cpuset.Set) string {
	var levels []string
	for _, level := range []struct {
		name string
		kind topo.Kind
	}{{"NM", topo.NUMA}, {"SK", topo.Package}, {"L3", topo.L3}, {"CR", topo.Core}, {"HT", topo.PU}} {
		var in []int
		for i, o := range m.Objects(level.kind) {
			if o.CPUs.Meets(cpus) {
				in = append(in, i)
			}
		}
		if len(in) > 0 {
			levels = append(levels, level.name+cpuset.Of(in...).String())
		}
	}
	return strings.Join(levels, ":")
}

// environ sets the variables by which a rank finds its PMIx server. The address has a variable for each version of
// the protocol, and a client uses the newest that it knows.
func (p *pmixPort) environ(env *environment, r *rank, cfg Config) {
	at := "ibrun.0;tcp4://127.0.0.1:" + strconv.Itoa(p.number)
	for _, entry := range []string{
		"PMIX_NAMESPACE=" + cfg.Namespace,
		"PMIX_RANK=" + num(r.rank),
		"PMIX_SERVER_URI41=" + at, "PMIX_SERVER_URI4=" + at, "PMIX_SERVER_URI3=" + at, "PMIX_SERVER_URI21=" + at,
		"PMIX_SECURITY_MODE=native",
		"PMIX_GDS_MODULE=hash",
		"PMIX_BFROP_BUFFER_TYPE=PMIX_BFROP_BUFFER_NON_DESC",
		"PMIX_VERSION=5.0.0",
		"PMIX_HOSTNAME=" + cfg.Node.Host,
	} {
		env.set(entry)
	}
	sizes, firsts := cfg.Job.Apps()
	each, first := job.Words(sizes), job.Words(firsts)
	if len(sizes) > 1 && max(len(each), len(first)) <= maxList { // Open MPI 4 reads no keys for these
		env.set("OMPI_NUM_APP_CTX=" + strconv.Itoa(len(sizes)))
		env.set("OMPI_APP_CTX_NUM_PROCS=" + each)
		env.set("OMPI_FIRST_RANKS=" + first)
	}
}

// maxList is the maximum length in bytes of a list in a variable. The kernel starts no program with a variable of 128
// KiB (execve(2)).
const maxList = 64 << 10

// RemoveLater registers the file at path, to be removed when the connection with the number call ends. If tree is
// true, path is a folder that is removed with its content. RemoveLater returns false if the file was not registered.
// Only paths below /dev/shm and in folders for temporary files are accepted.
func (s *Set) RemoveLater(call uint32, path string, tree bool) bool {
	file, ok := s.removable(path, tree)
	return ok && s.PMIx.keep(call, file)
}

func (s *Set) removable(path string, tree bool) (f safefile.File, ok bool) {
	path = filepath.Clean(path)
	for _, root := range append([]string{safefile.SharedMemory}, s.folders()...) {
		if below, under := strings.CutPrefix(path, root+"/"); under {
			return safefile.File{Root: root, Path: below, Tree: tree}, true
		}
	}
	return f, false
}

// maxFiles is the maximum number of files that one connection may register.
const maxFiles = 1024

func (p *pmixPort) keep(call uint32, file safefile.File) bool {
	open := p.call(call) != nil // if not, the file goes with the folder
	p.scratchMu.Lock()
	defer p.scratchMu.Unlock()
	if p.folder == nil || len(p.files[call]) >= maxFiles || p.folder.Register(file) != nil {
		return false
	}
	if open {
		p.files[call] = append(p.files[call], file)
	}
	return true
}

// dropFiles removes the files that a connection has registered.
func (p *pmixPort) dropFiles(call uint32) {
	p.scratchMu.Lock()
	defer p.scratchMu.Unlock()
	if p.folder != nil {
		p.folder.Drop(p.files[call])
	}
	delete(p.files, call)
}

// emptyFolders empties the folders of ranks that have ended.
func (p *pmixPort) emptyFolders(ranks []*rank) {
	p.scratchMu.Lock()
	defer p.scratchMu.Unlock()
	if p.folder == nil {
		return
	}
	for _, r := range ranks {
		folder := filepath.Join(p.folder.Path(), num(r.rank))
		if os.RemoveAll(folder) == nil {
			_ = os.Mkdir(folder, 0o700) // if this fails, clients have no folder, as before makeFolder
		}
	}
}

// removeFolder removes the job's folder and all registered files.
func (p *pmixPort) removeFolder() {
	p.scratchMu.Lock()
	defer p.scratchMu.Unlock()
	if p.folder != nil {
		p.folder.Remove()
		safefile.Sweep(os.TempDir()) // remove folders of agents that were killed or whose node lost power
	}
	p.folder, p.over = nil, true
}
