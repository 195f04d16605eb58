// Package launch measures how long it takes to start and end jobs, and the parts of that time:
//
//   - launches beside mpiexec.hydra, mpirun and bare sessions, over the same sshd or the same rsh stand-in of
//     a virtual cluster
//   - launches beside the shortest possible launch by a tree of agents
//   - ibrun ctl exec, and a job that grows and shrinks
//   - ibrun and srun in jobs of Slurm
//   - one ssh session
//   - the start of a rank
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

// Launch measures launches in the given cases, and writes their times to FILE. It returns an error if a bound is
// missed. IBRUN is installed below /opt, like the other launchers below /usr (test/installed). COPY is the same
// program outside these folders. ibrun then makes each node search for the program, which takes longer.
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

// maxAfter limits the time of IBRUN divided by that of OLDER.
const maxAfter = 1.03

// Before launches the same jobs with IBRUN and with its older build OLDER in turns, to find changes that made ibrun
// slower.
func Before(args []string) error {
	var ibrun, earlier string
	var rounds int
	var cases []string
	if err := figure.Parse(args, &ibrun, &earlier, &rounds, &cases); err != nil {
		return err
	}
	return eachCase(rounds, cases, func(st *stage) []*contestant {
		first, second := st.contestants(ibrun)[0], st.contestants(earlier)[0]
		second.Name = older
		return []*contestant{first, second}
	}, func(r row, bounds *figure.Bounds) error {
		bounds.AtMost(r.title()+": ibrun / ibrun of before", r.find(ours).Over(&r.find(older).Way), maxAfter)
		return nil
	})
}

// eachCase measures and prints some cases, and calls take with the row of each.
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
		fmt.Printf("  %-20s %9.1f ms (least %9.1f), %5.2f of ibrun's time", c.Name, c.Median(), slices.Min(c.Values),
			c.Over(&mine.Way))
		if mine.cpu() > 0 {
			fmt.Printf("; %7.2f ms CPU per node, %5.2f of its CPU", c.cpu(), c.cpu()/mine.cpu())
		}
		fmt.Println()
	}
}

// maxOwn limits the CPU time of ibrun per node in milliseconds, without that of sessions and ranks.
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

// columns lists the contestants in the order of FILE. FILE has two columns for each of them: the median time, and
// the CPU time per node, both in milliseconds.
var columns = []string{ours, uninstalled, "ibrun --ssh exec", floorName, hydra, openMPI}

// save writes the row to a file. It replaces the earlier row of the same case. plot/launch.gp plots the file.
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

// Spread measures how much the times of launches of the same job differ.
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

// absolute returns path as an absolute path, because hosts of a cluster have another working directory.
func absolute(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return abs
}
