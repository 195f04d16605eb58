package launch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"ibrun/test/bench/figure"
	"ibrun/test/bench/hosts"
	"ibrun/test/vcluster/cluster"
)

const patience = 90 * time.Second

// stage is a cluster with what contestants need. Without a cluster it is this machine.
type stage struct {
	*cluster.Cluster
	shell       string // the remote shell in place of ssh, or empty
	hydra, open string // files of hosts
	self        string
	cache       string   // costs that ibrun remembers
	hosts       []string // whose CPU time counts
}

// build brings up a cluster, if one is wanted.
func build(g group, s size) (*stage, error) {
	if g.here {
		return &stage{}, nil
	}
	cfg := g.cluster
	cfg.Nodes, cfg.NoSSH = s.nodes, g.stand
	c, err := cluster.Up(context.Background(), cfg)
	if err != nil {
		return nil, err
	}
	st := &stage{Cluster: c, cache: filepath.Join(c.Shared(), "cache"), hosts: append(c.Nodes(), cluster.FrontName)}
	if st.hydra, st.open, err = hosts.Files(c.Shared(), c.Nodes(), s.ppn); err == nil {
		st.self, err = os.Executable()
	}
	if g.stand {
		st.shell = c.VRSH()
	}
	if err == nil && g.latency > 0 {
		st.shell = filepath.Join(c.Shared(), LagPrefix+g.latency.String())
		err = os.Symlink(st.self, st.shell)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return st, nil
}

// Close takes the cluster down.
func (s *stage) Close() error {
	if s.Cluster == nil {
		return nil
	}
	return s.Cluster.Close()
}

// command is one to run where a launcher is.
func (s *stage) command(ctx context.Context, argv []string) *exec.Cmd {
	if s.Cluster == nil {
		return exec.CommandContext(ctx, argv[0], argv[1:]...)
	}
	return s.Command(ctx, argv...)
}

// cpu is what all hosts have used so far; nothing without a cluster, whose control groups tell it.
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

// launch runs one job.
func (s *stage) launch(c contestant) (wall, used time.Duration, err error) {
	before, err := s.cpu()
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := s.command(ctx, c.argv)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+s.cache,
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	var said bytes.Buffer
	cmd.Stderr = &said
	var out []byte
	wall, err = figure.Time(func() (err error) { out, err = cmd.Output(); return err })
	if lines := bytes.Count(out, []byte("\n")); err == nil && lines != c.lines {
		err = fmt.Errorf("%d lines instead of %d", lines, c.lines)
	}
	if err == nil && c.read != nil {
		err = c.read(said.Bytes())
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w: %s", c.name, err, said.Bytes())
	}
	after, err := s.cpu()
	return wall, after - before, err
}

// measure lets the contestants on a stage launch, turn by turn, after a round that does not count.
func measure(rounds int, g group, s size, contestants func(*stage) []contestant) (r row, err error) {
	st, err := build(g, s)
	if err != nil {
		return r, err
	}
	defer st.Close()
	rounds *= max(1, g.times)
	r = row{Machine: figure.Machine(), Nodes: s.nodes, PerNode: s.ppn, Rounds: rounds}
	all := contestants(st)
	walls, cpus := make([][]time.Duration, len(all)), make([][]time.Duration, len(all))
	for round := range rounds + 1 {
		for i, c := range all {
			wall, used, err := st.launch(c)
			if err != nil && !c.mine() {
				fmt.Println("  once more:", err) // mpiexec.hydra's proxies lose their connections now and then
				wall, used, err = st.launch(c)
			}
			if err != nil {
				return r, err
			}
			if round > 0 {
				walls[i], cpus[i] = append(walls[i], wall), append(cpus[i], used)
			}
		}
	}
	for i, c := range all {
		r.Ways = append(r.Ways, wayOf(c.name, walls[i], cpus[i], s.nodes))
	}
	return r, nil
}

// spreadLaunches of spreadNodes may differ by mostSpread.
const (
	spreadLaunches = 20
	spreadNodes    = 64
	mostSpread     = 1.5
)

// spread shows how much launches of the same job differ.
func spread(ibrun string) error {
	fmt.Println(figure.Machine())
	bounds := figure.Bounds{To: os.Stdout}
	for _, g := range []group{{}, {stand: true}} {
		g.alone = true
		s := size{spreadNodes, 1}
		st, err := build(g, s)
		if err != nil {
			return err
		}
		defer st.Close()
		if ibrun, err = filepath.Abs(ibrun); err != nil {
			return err
		}
		c := g.contestants(ibrun, st, s)[0]
		var walls []time.Duration
		for i := range spreadLaunches + 1 {
			wall, _, err := st.launch(c)
			if err != nil {
				return err
			}
			if i > 0 { // the first one learns what a session costs
				walls = append(walls, wall)
			}
		}
		how := "ssh"
		if g.stand {
			how = "the rsh stand-in"
		}
		least, most := slices.Min(walls), slices.Max(walls)
		fmt.Printf("%d launches of %d nodes over %s: %v to %v, median %v\n", spreadLaunches, spreadNodes, how,
			least.Round(time.Millisecond), most.Round(time.Millisecond), figure.Median(walls).Round(time.Millisecond))
		bounds.AtMost("slowest / fastest over "+how, most.Seconds()/least.Seconds(), mostSpread)
		if err := st.Close(); err != nil {
			return err
		}
	}
	return bounds.Err()
}
