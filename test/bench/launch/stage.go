package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ibrun/bootstrap/tree"
	"ibrun/test/bench/figure"
	"ibrun/test/vcluster/cluster"
)

const patience = 90 * time.Second

// group describes launches over one kind of session.
type group struct {
	name, how string
	counts    []int         // numbers of nodes; each is measured with each number of ranks in perNode
	perNode   []int         // numbers of ranks on each node
	kex       string        // the key exchange of the sshd, or "" for the default
	stand     bool          // use the rsh stand-in instead of ssh
	latency   time.Duration // added to the start of each session
	alone     bool          // measure ibrun and bare sessions, but no other launcher
	send      bool          // send ibrun to the nodes, which have no copy in their caches
	here      bool          // start the ranks on the launcher's host, without sessions
	times     int           // if not 0, the number of rounds is multiplied by it
}

var groups = map[string]group{
	"ssh":   {how: "ssh as shipped", counts: []int{4, 16, 64, 128}, perNode: []int{1, 16}},
	"send":  {how: "ssh, ibrun not on the nodes", counts: []int{64}, perNode: []int{1}, send: true},
	"tuned": {how: "ssh with curve25519 for all", counts: []int{64}, perNode: []int{1, 16}, kex: "curve25519-sha256"},
	"rsh":   {how: "rsh stand-in", counts: []int{4, 16, 64, 128}, perNode: []int{1, 16}, stand: true},
	"latency": {how: "rsh stand-in, 50 ms more for each session", counts: []int{128}, perNode: []int{1}, stand: true,
		latency: 50 * time.Millisecond},
	"half": {how: "rsh stand-in, 500 ms more for each session", counts: []int{64, 128}, perNode: []int{1}, stand: true,
		latency: 500 * time.Millisecond},
	"second": {how: "rsh stand-in, 1 s more for each session", counts: []int{64, 128}, perNode: []int{1}, stand: true,
		latency: time.Second},
	"here":    {counts: []int{1}, perNode: []int{1, 16}, here: true, times: 10},
	"own":     {how: "rsh stand-in, ibrun's own part", counts: []int{64}, perNode: []int{1}, stand: true, alone: true},
	"own-ssh": {how: "ssh, ibrun's own part", counts: []int{64}, perNode: []int{1}, alone: true},
}

// size has the number of nodes of a job, and the number of ranks on each node (ppn).
type size struct{ nodes, ppn int }

// parseCase parses an argument CASE. The name of a group selects all sizes of the group. A name with a size, such as
// ssh:64x16, selects 64 nodes with 16 ranks each.
func parseCase(text string) (g group, sizes []size, err error) {
	name, one, some := strings.Cut(text, ":")
	g, ok := groups[name]
	if !ok {
		return g, nil, fmt.Errorf("no such case: %q; try %s", name, strings.Join(slices.Sorted(maps.Keys(groups)), ", "))
	}
	g.name = name
	if some {
		var s size
		if _, err := fmt.Sscanf(one, "%dx%d", &s.nodes, &s.ppn); err != nil {
			return g, nil, fmt.Errorf("invalid size: %q; write 64x16", one)
		}
		return g, []size{s}, nil
	}
	for _, n := range g.counts {
		for _, p := range g.perNode {
			sizes = append(sizes, size{n, p})
		}
	}
	return g, sizes, nil
}

// manyNodes is the number of nodes from which on `ibrun --ssh exec` is not measured, because it takes minutes.
const manyNodes = 256

// program is the program that each rank runs. It prints one line, so that a missing rank is noticed.
const program = "hostname"

// Names of contestants.
const (
	ours        = "ibrun"
	uninstalled = "ibrun, not installed"
	hydra       = "mpiexec.hydra"
	openMPI     = "mpirun"
	floorName   = "bare sessions"
)

// contestant is one of the launchers that are compared, with its command line for a job. Its values and cpus are in
// milliseconds.
type contestant struct {
	figure.Way
	argv  []string
	lines int                     // the number of lines that a launch must print
	cpus  []float64               // CPU time of all hosts, divided by the number of nodes; includes the first round
	read  func(said []byte) error // if not nil, called with the standard error of each launch
}

// cpu returns the median of cpus, without the first round.
func (c *contestant) cpu() float64 { return figure.Median(c.cpus[1:]) }

// stage is a virtual cluster on which contestants are measured. If Cluster is nil, they run on this machine.
type stage struct {
	*cluster.Cluster
	group
	size
	shell string // the path of the remote shell, or "" for ssh
	job   *figure.Job
	hosts []string // the hosts whose CPU time counts

	hidden []string // paths of copies of ibrun that exist only on the front node
}

// build returns a stage for jobs of the size s in the group g. It brings up a virtual cluster unless g.here is set.
func build(g group, s size) (*stage, error) {
	st := &stage{group: g, size: s}
	if g.here {
		return st, nil
	}
	c, err := cluster.Up(context.Background(), cluster.Config{Nodes: s.nodes, Kex: g.kex, NoSSH: g.stand})
	if err != nil {
		return nil, err
	}
	st.Cluster, st.hosts = c, append(c.Nodes(), cluster.FrontName)
	if g.stand {
		st.shell = c.VRSH()
	}
	if st.job, err = figure.NewJob(c.Shared(), s.nodes, s.ppn); err == nil && g.latency > 0 {
		st.shell, err = slowShell(c.Shared(), g.latency, "exec "+st.shell+` "$@"`)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return st, nil
}

// slowShell writes a script to dir that sleeps for latency and then runs command, for use as a remote shell. The
// latency is part of the script, because mpiexec.hydra cannot pass further arguments to its remote shell. slowShell
// returns the path of the script.
func slowShell(dir string, latency time.Duration, command string) (path string, err error) {
	path = filepath.Join(dir, "after-"+latency.String())
	script := fmt.Sprintf("#!/bin/sh\nsleep %g\n%s\n", latency.Seconds(), command)
	return path, os.WriteFile(path, []byte(script), 0o755)
}

// Close takes the cluster down.
func (s *stage) Close() error {
	for _, path := range s.hidden {
		_ = os.Remove(path)
	}
	if s.Cluster == nil {
		return nil
	}
	return s.Cluster.Close()
}

// contestants returns the launchers to compare on the stage. The first one is the program at the path ibrun. A
// launcher that is not installed is left out.
func (s *stage) contestants(ibrun string) (all []*contestant) {
	ibrun = absolute(ibrun)
	if s.send {
		ibrun = s.hide(ibrun)
	}
	ranks := s.nodes * s.ppn
	n := strconv.Itoa(ranks)
	add := func(name string, lines int, argv ...string) {
		if _, err := exec.LookPath(argv[0]); err == nil || name == ours {
			all = append(all, &contestant{Way: figure.Way{Name: name}, argv: argv, lines: lines})
		}
	}
	if s.here {
		add(ours, ranks, ibrun, "-n", n, program)
		add(hydra, ranks, "mpiexec.hydra", "-n", n, program)
		add(openMPI, ranks, "mpirun.openmpi", "--oversubscribe", "-n", n, program)
		return all
	}
	few := s.nodes >= manyNodes || s.alone
	how, window := "native", tree.Window
	mine := []string{ibrun, "-n", n, "-f", s.job.Hydra}
	launcher, agent := []string{"-launcher", "ssh"}, []string(nil)
	if s.shell != "" {
		how = s.shell
		mine = append(mine, "--launcher-exec", s.shell)
		launcher = []string{"-launcher", "rsh", "-launcher-exec", s.shell}
		agent = []string{"--mca", "plm_rsh_agent", s.shell}
	}
	if s.latency > 0 { // sessions mostly wait, so starting all at once is fastest
		window = s.nodes
	}
	add(ours, ranks, append(slices.Clone(mine), program)...)
	if s.shell == "" && !few {
		add("ibrun --ssh exec", ranks, append(slices.Clone(mine), "--ssh", "exec", program)...)
	}
	add(floorName, s.nodes, self(), ":floor", how, strconv.Itoa(s.nodes), strconv.Itoa(window), program)
	if s.alone {
		return all
	}
	add(hydra, ranks, slices.Concat([]string{"mpiexec.hydra"}, launcher,
		[]string{"-n", n, "-f", s.job.Hydra, program})...)
	if s.latency == 0 { // with a latency mpirun takes several times as long, and it has no bound
		add(openMPI, ranks, slices.Concat([]string{"mpirun.openmpi"}, agent,
			[]string{"--hostfile", s.job.OpenMPI, "-n", n, program})...)
	}
	return all
}

// hide copies the program at path to /tmp of the front node, which the compute nodes cannot read. It returns the path
// of the copy, or path if the copy fails.
func (s *stage) hide(path string) string {
	program, err := os.ReadFile(path)
	hidden := "/tmp/" + filepath.Base(filepath.Dir(s.Shared())) + "-" + filepath.Base(path)
	if err != nil || os.WriteFile(hidden, program, 0o755) != nil {
		return path
	}
	s.hidden = append(s.hidden, hidden)
	return hidden
}

// forget removes the caches of ibrun on the nodes.
func (s *stage) forget() (err error) {
	for _, name := range s.Nodes() {
		err = errors.Join(err, os.RemoveAll(s.Root(name)+"/root/.cache/ibrun"))
	}
	return err
}

// cpu returns the CPU time that all hosts together have used so far, from their control groups. Without a cluster it
// returns 0.
func (s *stage) cpu() (sum time.Duration, err error) {
	for _, h := range s.hosts {
		used, err := s.CPU(h)
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// launch runs the command of c once. It appends the CPU time per node to c.cpus, and returns the wall time in
// milliseconds.
func (s *stage) launch(c *contestant) (float64, error) {
	if s.send {
		if err := s.forget(); err != nil {
			return 0, err
		}
	}
	before, err := s.cpu()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	if s.Cluster != nil {
		env := append(cmd.Env, "XDG_CACHE_HOME="+filepath.Join(s.Shared(), "cache")) // ibrun stores launch costs there
		cmd = s.Command(context.Background(), c.argv...)
		cmd.Env = env
	}
	r, err := figure.Run(patience, cmd)
	if lines := bytes.Count(r.Out, []byte("\n")); err == nil && lines != c.lines {
		err = fmt.Errorf("%d lines were printed, want %d: %s", lines, c.lines, r.Said)
	}
	if err == nil && c.read != nil {
		err = c.read(r.Said)
	}
	if err != nil {
		return 0, err
	}
	after, err := s.cpu()
	c.cpus = append(c.cpus, figure.Milliseconds(after-before)/float64(s.nodes))
	return figure.Milliseconds(r.Took), err
}

// measure builds a stage and measures its contestants in turns. It drops the wall times of a first round. It closes
// the stage before it returns.
func measure(rounds int, g group, s size, contestants func(*stage) []*contestant) (r row, err error) {
	st, err := build(g, s)
	if err != nil {
		return r, err
	}
	defer st.Close()
	r = row{group: g, size: s, rounds: rounds * max(1, g.times), machine: figure.Machine(), ways: contestants(st)}
	var ways []*figure.Way
	for _, c := range r.ways {
		c.Do = func() (float64, error) {
			took, err := st.launch(c)
			if err != nil && !strings.HasPrefix(c.Name, ours) {
				fmt.Println("  once more:", err) // proxies of mpiexec.hydra sometimes lose their connections
				return st.launch(c)
			}
			return took, err
		}
		ways = append(ways, &c.Way)
	}
	return r, figure.Measure(1, r.rounds, ways...)
}
