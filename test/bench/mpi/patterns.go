package mpi

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"ibrun/test/bench/chart"
	"ibrun/test/bench/curve"
	"ibrun/test/bench/figure"
)

// patiencePattern is for one pattern: 64 ranks of MPI that poll share two processors.
const patiencePattern = 2 * time.Minute

// rival is the same pattern over something else. All are started by ibrun.
type rival struct {
	name, colour string
	argv         []string // before the pattern
	tcp          bool     // its round trips are those of plain TCP
	part         int      // of the steps that others make, if not 0: one in so many
}

// rivals leave MPI_Finalize out with MPICH: its ranks close their connections there with the help
// of each other, and some wait for ever (docs/mpi-programs.md).
func rivals(self, mpich, openMPI string) []rival {
	return []rival{
		{name: "ibrun", colour: "#1f4e79", argv: []string{self, "mpi", "pattern"}},
		{name: "MPICH", colour: "#c8553d", argv: []string{mpich, "-unfinished"}},
		{name: "Open MPI", colour: "#e0a458", argv: []string{"env", "OMPI_MCA_mpi_yield_when_idle=1", openMPI}},
	}
}

// crowded are the rivals where many ranks share a CPU. A rank of Open MPI yields. One of MPICH
// (ch4:ucx) polls until its time slice ends, and has no setting for that, so a step takes as many
// slices as there are ranks on the CPU: it makes fewer steps. The same program also yields itself.
func crowded(self, mpich, openMPI string) []rival {
	list := rivals(self, mpich, openMPI)
	yields := list[1]
	yields.name, yields.argv = "MPICH, yielding", append(slices.Clone(yields.argv), "-yield")
	list[1].part = 4
	return slices.Insert(list, 2, yields)
}

// steps are those of a pattern that r makes.
func (r rival) steps(all int) int { return all / max(r.part, 1) }

// apps measures a step of two programs of package ibrun beside the same over MPICH and Open MPI. It
// puts a table on a page. There is no bound: which library is faster on processors that ranks share
// depends on how they wait. A library that does not get through once is left out from then on, and
// the table says so.
func (j job) apps(self, mpich, openMPI, page string) error {
	ways := crowded(self, mpich, openMPI)
	var table strings.Builder
	autogroup, _ := os.ReadFile("/proc/sys/kernel/sched_autogroup_enabled") // for the reader
	fmt.Fprintf(&table, "Medians of %d rounds, %s.\nkernel.sched_autogroup_enabled=%s; %d nodes x %d ranks, "+
		"all started by ibrun.\n\n",
		j.rounds, figure.Machine(), strings.TrimSpace(string(autogroup)), j.nodes, j.perNode)
	head, rule := "| a step of |", "| --- |"
	for _, r := range ways {
		head, rule = head+" "+r.name+" |", rule+" --- |"
	}
	for _, r := range ways[1:] {
		head, rule = head+" ibrun / "+r.name+" |", rule+" --- |"
	}
	table.WriteString(head + "\n" + rule + "\n")
	stuck := map[string]error{}
	for _, p := range []struct {
		pattern      string
		steps, bytes int
	}{{"stencil3d", 100, 1024}, {"stencil3d", 50, 65536}, {"alltoall", 20, 64}, {"alltoall", 10, 4096}} {
		us := map[string][]float64{}
		var turns []func() error
		for _, r := range ways {
			turns = append(turns, func() error {
				if stuck[r.name] != nil {
					return nil
				}
				argv := append(slices.Clone(r.argv), p.pattern, strconv.Itoa(r.steps(p.steps)), strconv.Itoa(p.bytes))
				w := &way{name: r.name, argv: j.underIbrun(argv...)}
				lines, err := w.lines()
				switch {
				case err == nil:
					us[r.name] = append(us[r.name], lines[0].Y)
				case r.name == "ibrun":
					return err
				default:
					stuck[r.name] = err
					us[r.name] = nil
				}
				return nil
			})
		}
		if err := figure.Turns(j.rounds, turns...); err != nil {
			return err
		}
		mine := figure.Median(us["ibrun"])
		var times, ratios string
		for _, r := range ways[1:] {
			if len(us[r.name]) == 0 {
				times, ratios = times+" none |", ratios+" |"
				continue
			}
			other := figure.Median(us[r.name])
			times += fmt.Sprintf(" %.2f ms |", other/1000)
			ratios += fmt.Sprintf(" %.2f |", mine/other)
		}
		fmt.Fprintf(&table, "| %s, %d bytes to each | %.2f ms |%s%s\n", p.pattern, p.bytes, mine/1000, times, ratios)
	}
	for _, r := range ways {
		if r.part > 1 {
			fmt.Fprintf(&table, "\n%s makes one in %d of the steps.\n", r.name, r.part)
		}
		if err := stuck[r.name]; err != nil {
			fmt.Fprintf(&table, "\n%s did not get through within %v: %v\n", r.name, patiencePattern,
				strings.TrimRight(err.Error(), ": \n"))
		}
	}
	fmt.Print(table.String())
	return figure.Keep(page, "make bench-apps", table.String())
}

// lines runs a job whose rank 0 prints pairs of numbers: bytes and microseconds.
func (w *way) lines() (list []chart.Point, err error) {
	out, _, err := w.run(patiencePattern)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		var p chart.Point
		if _, err := fmt.Sscanf(line, "%f %f\n", &p.X, &p.Y); err != nil {
			return nil, fmt.Errorf("%s: unexpected output %q: %w", w.name, line, err)
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s printed nothing", w.name)
	}
	return list, nil
}

// mostCurve is the longest message of the curve.
const mostCurve = 16 << 20

// curve measures round trips of all lengths between two nodes, and keeps them in a file and a
// picture.
func (j job) curve(self, mpich, openMPI, file, picture string) error {
	kinds := append(rivals(self, mpich, openMPI),
		rival{name: "plain TCP", colour: "#7b8794", argv: []string{self, "mpi", "pattern"}, tcp: true})
	ways := make([]curve.Way, len(kinds))
	var turns []func() error
	for i, r := range kinds {
		ways[i] = curve.Way{Name: r.name, Colour: r.colour}
		turns = append(turns, func() error {
			what := "trips"
			if r.tcp {
				what = "tcp"
			}
			w := &way{name: r.name, argv: j.underIbrun(append(r.argv, what, strconv.Itoa(mostCurve))...)}
			lines, err := w.lines()
			for _, p := range lines {
				ways[i].Add(int(p.X), p.Y)
			}
			return err
		})
	}
	if err := figure.Turns(j.rounds, turns...); err != nil {
		return err
	}
	how := fmt.Sprintf("Medians of %d rounds in turns, one rank on each of two virtual nodes.", j.rounds)
	return curve.Save("Messages between two nodes", how, ways, mostCurve, file, picture)
}
