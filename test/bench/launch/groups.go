package launch

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"ibrun/bootstrap/tree"
	"ibrun/test/vcluster/cluster"
)

// group is launches over one kind of session.
type group struct {
	nodes, ppn []int
	cluster    cluster.Config
	stand      bool          // the rsh stand-in instead of ssh
	latency    time.Duration // of each session besides
	alone      bool          // only ibrun and the floor
	here       bool          // no sessions: the ranks are where the launcher is
	times      int           // as many rounds as others have; 0: as many
}

// groups by name.
var groups = map[string]group{
	"ssh":     {nodes: []int{4, 16, 64, 128}, ppn: []int{1, 16}},
	"tuned":   {nodes: []int{64}, ppn: []int{1, 16}, cluster: cluster.Config{Kex: "curve25519-sha256"}},
	"rsh":     {nodes: []int{4, 16, 64, 128}, ppn: []int{1, 16}, stand: true},
	"latency": {nodes: []int{128}, ppn: []int{1}, stand: true, latency: 50 * time.Millisecond},
	"half":    {nodes: []int{64, 128}, ppn: []int{1}, stand: true, latency: 500 * time.Millisecond},
	"second":  {nodes: []int{64, 128}, ppn: []int{1}, stand: true, latency: time.Second},
	"here":    {nodes: []int{1}, ppn: []int{1, 16}, here: true, times: 10},
	"own":     {nodes: []int{64}, ppn: []int{1}, stand: true, alone: true},
	"own-ssh": {nodes: []int{64}, ppn: []int{1}, alone: true},
}

// size is one case of a group.
type size struct{ nodes, ppn int }

// named is a group, or of ssh:64x16 one case of it.
func named(text string) (name string, g group, err error) {
	name, one, some := strings.Cut(text, ":")
	g, ok := groups[name]
	if !ok {
		return name, g, fmt.Errorf("no group %q: %s", name, strings.Join(slices.Sorted(maps.Keys(groups)), ", "))
	}
	if some {
		var s size
		if _, err := fmt.Sscanf(one, "%dx%d", &s.nodes, &s.ppn); err != nil {
			return name, g, fmt.Errorf("%q is no size: write 64x16", one)
		}
		g.nodes, g.ppn = []int{s.nodes}, []int{s.ppn}
	}
	return name, g, nil
}

func (g group) cases() (all []size) {
	for _, n := range g.nodes {
		for _, p := range g.ppn {
			all = append(all, size{n, p})
		}
	}
	return all
}

// large is a number of nodes on which only those run that are judged: others take minutes.
const large = 256

// program is what the ranks run: it prints a line, so that none can be missing.
const program = "hostname"

// contestant is one way of running a job.
type contestant struct {
	name  string
	argv  []string
	lines int                     // that it prints
	read  func(said []byte) error // gets its standard error; nil: nobody wants that
}

// Names of contestants that are judged.
const (
	ours        = "ibrun"
	uninstalled = "ibrun, not installed"
	older       = "ibrun of before"
	hydra       = "mpiexec.hydra"
	openMPI     = "mpirun"
	floorName   = "bare sessions"
	floorNodes  = "node[0001-%04d]"
)

// mine says whether a failure is ibrun's own, and ends the benchmark.
func (c contestant) mine() bool { return slices.Contains([]string{ours, uninstalled, older}, c.name) }

// contestants are those that are installed here, on a stage for the size.
func (g group) contestants(ibrun string, st *stage, s size) []contestant {
	ranks := s.nodes * s.ppn
	n := strconv.Itoa(ranks)
	if g.here {
		run := func(name string, argv ...string) contestant {
			return contestant{name: name, argv: append(argv, "-n", n, program), lines: ranks}
		}
		return installed([]contestant{run(ours, ibrun)}, run(hydra, "mpiexec.hydra"),
			run(openMPI, "mpirun.openmpi", "--oversubscribe"))
	}
	nodes := fmt.Sprintf(floorNodes, s.nodes)
	how := "native"
	mine := []string{ibrun, "-n", n, "-f", st.hydra}
	hydraArgv := []string{"mpiexec.hydra", "-launcher", "ssh", "-n", n, "-f", st.hydra, program}
	openArgv := []string{"mpirun.openmpi", "--hostfile", st.open, "-n", n, program}
	if st.shell != "" {
		how = st.shell
		mine = append(mine, "--launcher-exec", st.shell)
		hydraArgv = slices.Insert(hydraArgv, 3, "-launcher-exec", st.shell)
		hydraArgv[2] = "rsh"
		openArgv = slices.Insert(openArgv, 1, "--mca", "plm_rsh_agent", st.shell)
	}
	all := []contestant{{name: ours, argv: append(slices.Clone(mine), program), lines: ranks}}
	few := s.nodes >= large || g.alone
	if st.shell == "" && !few {
		all = append(all, contestant{
			name: "ibrun --ssh exec", argv: append(slices.Clone(mine), "--ssh", "exec", program), lines: ranks})
	}
	window := tree.Window
	if g.latency > 0 { // they wait, and all at once is fastest
		window = s.nodes
	}
	bare := []string{st.self, "launch", floorRole, how, strconv.Itoa(s.nodes), strconv.Itoa(window), program}
	all = append(all, contestant{name: floorName, argv: bare, lines: s.nodes})
	if g.alone {
		return all
	}
	theirs := []contestant{{name: hydra, argv: hydraArgv, lines: ranks}}
	if g.latency == 0 { // where sessions wait, it takes several times as long, and is not judged
		theirs = append(theirs, contestant{name: openMPI, argv: openArgv, lines: ranks})
	}
	if s.ppn == 1 && st.shell == "" && !few {
		theirs = append(theirs,
			contestant{name: "pdsh", argv: []string{"pdsh", "-R", "ssh", "-w", nodes, program}, lines: ranks},
			contestant{name: "parallel-ssh",
				argv: []string{"parallel-ssh", "-P", "-p", "32", "-H", nodes, program}, lines: ranks})
	}
	return installed(all, theirs...)
}

// installed adds those of some contestants that are here.
func installed(all []contestant, theirs ...contestant) []contestant {
	for _, c := range theirs {
		if _, err := exec.LookPath(c.argv[0]); err == nil {
			all = append(all, c)
		}
	}
	return all
}
