// Package launch measures how long it takes to start and end jobs, and the parts of that time:
//
//   - launches by ibrun, mpiexec.hydra and mpirun, and the same program on all nodes without a launcher ("bare
//     sessions"), all over the same sshd or the same rsh stand-in of a virtual cluster
//   - the time until all agents are up, compared with the best possible tree of agents
//   - ibrun ctl exec, and a job that grows and shrinks
//   - launches by ibrun and by srun in jobs of Slurm
//   - one session by native ssh, the built-in client of ibrun, and by the program ssh
//   - the start of a rank, compared with posix_spawn
//   - reading the topology of a node
//
// The script test/bench/run prepares the machine.
package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ibrun/test/bench/figure"
)

// Launch measures launches by ibrun and by other launchers for each argument CASE (see parseCase). It writes the
// times to the table FILE, and returns an error if a bound is missed. It measures ibrun at two paths. IBRUN is below
// /opt: nodes start programs below /opt and /usr at once, and the other launchers are below /usr. COPY is the same
// program in another folder, where each node checks the file first, which takes longer (test/installed).
func Launch(args []string) error {
	var ibrun, elsewhere, file string
	var rounds int
	var cases []string
	if err := figure.Parse(args, &ibrun, &elsewhere, &rounds, &file, &cases); err != nil {
		return err
	}
	return eachCase(rounds, cases, func(st *stage) []*contestant {
		all := st.contestants(ibrun)
		if !st.here && !st.alone {
			second := st.contestants(elsewhere)[0]
			second.Name = uninstalled
			all = slices.Insert(all, 1, second)
		}
		return all
	}, func(r row, bounds *figure.Bounds) error {
		r.judge(bounds)
		return r.save(file)
	})
}

// maxOverOlder limits the time of a launch by a newer build of ibrun, divided by that of a launch by an older build,
// for each group. A limit is missed if the lower end of the 95 % interval of the ratio exceeds it.
var maxOverOlder = map[string]float64{"ssh": 1.05, "send": 1.2, "here": 1.1, "rsh": 1.2}

// Before launches the same jobs alternately with the program IBRUN and with older builds of it. OLDER lists the paths
// of the older builds, separated by commas. Before returns an error if IBRUN is slower than maxOverOlder allows.
func Before(args []string) error {
	var ibrun, earlier string
	var rounds int
	var cases []string
	if err := figure.Parse(args, &ibrun, &earlier, &rounds, &cases); err != nil {
		return err
	}
	return eachCase(rounds, cases, func(st *stage) []*contestant {
		all := st.contestants(ibrun)[:1]
		for _, path := range strings.Split(earlier, ",") {
			c := st.contestants(path)[0]
			c.Name = ours + " of before, " + filepath.Base(path)
			all = append(all, c)
		}
		return all
	}, func(r row, bounds *figure.Bounds) error {
		for _, before := range r.ways[1:] {
			low, middle, high := r.ways[0].Ratio(&before.Way)
			fmt.Printf("  ibrun / %s: %.3f (95 %%: %.3f to %.3f)\n", before.Name, middle, low, high)
			if limit := maxOverOlder[r.name]; limit > 0 {
				bounds.AtMost(r.title()+": lower end of ibrun / "+before.Name, low, limit)
			}
		}
		return nil
	})
}

// eachCase measures each case and prints the results. contestants returns the launchers to compare. eachCase calls
// take with the row of each case, and with the Bounds that take compares it with. It returns the first error, or an
// error that names the missed bounds.
func eachCase(rounds int, cases []string, contestants func(*stage) []*contestant,
	take func(row, *figure.Bounds) error) error {
	fmt.Println(figure.Machine())
	bounds := figure.Bounds{To: os.Stdout}
	for _, name := range cases {
		g, sizes, err := parseCase(name)
		if err != nil {
			return err
		}
		for _, s := range sizes {
			r, err := measure(rounds, g, s, contestants)
			if err != nil {
				return err
			}
			r.print()
			if err := take(r, &bounds); err != nil {
				return err
			}
		}
	}
	return bounds.Err()
}

// row has the measurements of one case.
type row struct {
	group
	size
	rounds  int
	machine string
	ways    []*contestant
}

func (r row) title() string {
	if r.here {
		return fmt.Sprintf("this machine, %d of %s", r.ppn, program)
	}
	return fmt.Sprintf("%d nodes x %d, %s", r.nodes, r.ppn, r.how)
}

// find returns the contestant with a name, or nil.
func (r row) find(name string) *contestant {
	i := slices.IndexFunc(r.ways, func(c *contestant) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return r.ways[i]
}

func (r row) print() {
	fmt.Printf("%s, medians of %d rounds in turns:\n", r.title(), r.rounds)
	mine := r.find(ours)
	for _, c := range r.ways {
		fmt.Printf("  %-24s %9.1f ms (least %9.1f), %5.2f of ibrun's time", c.Name, c.Median(), slices.Min(c.Values),
			c.Over(&mine.Way))
		if mine.cpu() > 0 {
			fmt.Printf("; %7.2f ms CPU per node, %5.2f of its CPU", c.cpu(), c.cpu()/mine.cpu())
		}
		fmt.Println()
	}
}

// maxOwn limits the CPU time that a launch by ibrun uses per node in addition to that of bare sessions, in
// milliseconds.
const maxOwn = 3

// judge compares the row with its bounds.
func (r row) judge(b *figure.Bounds) {
	bound := func(name string, least float64) {
		theirs := r.find(name)
		for _, mine := range []string{ours, uninstalled} {
			if c := r.find(mine); theirs != nil && c != nil {
				b.AtLeast(r.title()+": "+name+" / "+mine, theirs.Over(&c.Way), least)
			}
		}
	}
	switch {
	case r.name == "ssh" && r.nodes >= 64:
		bound(hydra, 3.2)
		bound(openMPI, 6)
	case r.name == "tuned":
		bound(hydra, 1.2)
	case r.name == "rsh" && r.nodes == 64:
		bound(hydra, 1.1)
	case r.name == "rsh" && r.nodes == 256, r.name == "half", r.name == "second", r.here:
		bound(hydra, 1)
	case r.name == "latency":
		bound(hydra, 2)
	case r.alone:
		more := r.find(ours).cpu() - r.find(floorName).cpu()
		b.AtMost(r.title()+": ms of CPU per node beyond bare sessions", more, maxOwn)
	}
}

// columns lists the names of the contestants in the order of their columns in the file that save writes. Each of them
// has two columns: the median time of a launch, and the CPU time per node, both in milliseconds.
var columns = []string{ours, uninstalled, "ibrun --ssh exec", floorName, hydra, openMPI}

// save writes the row as a line to a table with tabs between its columns. It replaces the earlier line of the same
// case. test/bench/plot/launch.gp plots the table.
func (r row) save(file string) error {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	lines[0] = "case\trounds\tmachine"
	line := fmt.Sprintf("%s\t%d\t%s", r.title(), r.rounds, r.machine)
	for _, name := range columns {
		lines[0] += "\t" + name + "\t" + name + ", CPU"
		if c := r.find(name); c != nil {
			line += fmt.Sprintf("\t%.2f\t%.2f", c.Median(), c.cpu())
		} else {
			line += "\t\t"
		}
	}
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, r.title()+"\t") })
	if i < 0 {
		lines, i = append(lines, ""), len(lines)
	}
	lines[i] = line
	return os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// The slowest of spreadLaunches launches on spreadNodes nodes may take maxSpread times as long as the fastest.
const (
	spreadLaunches = 20
	spreadNodes    = 64
	maxSpread      = 1.5
)

// Spread measures how much the times of launches of the same job differ, over ssh and over the rsh stand-in.
func Spread(args []string) error {
	var ibrun string
	if err := figure.Parse(args, &ibrun); err != nil {
		return err
	}
	fmt.Println(figure.Machine())
	bounds := figure.Bounds{To: os.Stdout}
	for _, g := range []group{{how: "ssh", alone: true}, {how: "the rsh stand-in", alone: true, stand: true}} {
		r, err := measure(spreadLaunches, g, size{spreadNodes, 1},
			func(st *stage) []*contestant { return st.contestants(ibrun)[:1] })
		if err != nil {
			return err
		}
		r.print()
		times := r.ways[0].Values
		bounds.AtMost("slowest / fastest over "+g.how, slices.Max(times)/slices.Min(times), maxSpread)
	}
	return bounds.Err()
}

// self returns the path of the running program.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// absolute returns path as an absolute path, because commands on a virtual cluster run in another working directory.
func absolute(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return abs
}
