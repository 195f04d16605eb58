package mpi

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"ibrun/test/bench/figure"
	"ibrun/test/bench/message"
)

// patiencePattern limits one job of a pattern. It is long because 64 MPI ranks that poll may share two CPUs.
const patiencePattern = 2 * time.Minute

// rival is one of the programs that are compared. Each of them sends the messages of a pattern, with package ibrun or
// over an MPI library. ibrun starts all of them.
type rival struct {
	name    string
	argv    []string // the command, to which the name of the pattern and its numbers are appended
	divisor int      // if not 0, the number of steps is divided by it
}

// rivals returns a rival for package ibrun, one for MPICH and one for Open MPI. self is the path of the program
// bench. mpich and openMPI are the paths of c/pattern.c, compiled with each library. With MPICH the program does not
// call MPI_Finalize, because some ranks hang in it (docs/mpi-programs.md).
func rivals(self, mpich, openMPI string) []rival {
	return []rival{
		{name: "ibrun", argv: []string{self, ":rank"}},
		{name: "MPICH", argv: []string{mpich, "-unfinished"}},
		{name: "Open MPI", argv: []string{"env", "OMPI_MCA_mpi_yield_when_idle=1", openMPI}},
	}
}

// crowded returns the rivals for jobs in which many ranks share a CPU. A rank of Open MPI yields while it waits. A
// rank of MPICH (ch4:ucx) polls until its time slice ends, and no setting changes that. So a step of MPICH takes as
// many time slices as there are ranks on the CPU, and crowded gives MPICH only a quarter of the steps. crowded adds a
// rival with MPICH that calls sched_yield while it waits for messages.
func crowded(self, mpich, openMPI string) []rival {
	list := rivals(self, mpich, openMPI)
	yields := rival{name: "MPICH, yielding", argv: append(slices.Clone(list[1].argv), "-yield")}
	list[1].divisor = 4
	return slices.Insert(list, 2, yields)
}

// way returns a Way that runs a rival with a pattern. Rank 0 prints lines of two numbers: bytes and microseconds. The
// Way calls each for every line. Its value is the microseconds of the last line.
func (j job) way(r rival, each func(bytes int, us float64), pattern ...string) *figure.Way {
	return &figure.Way{Name: r.name, Do: func() (us float64, err error) {
		result, err := run(patiencePattern, j.underIbrun(append(slices.Clone(r.argv), pattern...)...))
		if err != nil {
			return 0, err
		}
		for line := range bytes.Lines(result.Out) {
			var bytes int
			if _, err := fmt.Sscan(string(line), &bytes, &us); err != nil {
				return 0, fmt.Errorf("unexpected output %q: %w", line, err)
			}
			each(bytes, us)
		}
		return us, err
	}}
}

// Apps compares the time of a step of the patterns stencil3d and alltoall with package ibrun, MPICH and Open MPI. It
// writes a table to the document PAGE. There is no bound: where ranks share CPUs, the times mostly depend on how the
// ranks wait. After a library has failed or hung once, Apps does not run it again, and the table says so.
func Apps(args []string) error {
	var self, mpich, openMPI, page string
	return onCluster(append([]string{uninstalled}, args...), func(j job) error {
		return j.apps(crowded(self, mpich, openMPI), page)
	}, &self, &mpich, &openMPI, &page)
}

func (j job) apps(rivals []rival, page string) error {
	autogroup, _ := os.ReadFile("/proc/sys/kernel/sched_autogroup_enabled") // for the reader
	table := fmt.Sprintf("Medians of %d rounds, %s.\nkernel.sched_autogroup_enabled=%s; %d nodes x %d ranks, "+
		"all started by ibrun.\n\n",
		j.rounds, figure.Machine(), strings.TrimSpace(string(autogroup)), j.Nodes, j.PerNode)
	head := "| a step of |"
	for _, r := range rivals {
		head += " " + r.name + " |"
	}
	for _, r := range rivals[1:] {
		head += " ibrun / " + r.name + " |"
	}
	table += head + "\n" + strings.Repeat("| --- ", 2*len(rivals)) + "|\n"
	stuck := map[string]error{}
	for _, p := range []struct {
		pattern      string
		steps, bytes int
	}{{"stencil3d", 100, 1024}, {"stencil3d", 50, 65536}, {"alltoall", 20, 64}, {"alltoall", 10, 4096}} {
		var ways []*figure.Way
		for _, r := range rivals {
			w := j.way(r, func(int, float64) {}, p.pattern, strconv.Itoa(p.steps/max(r.divisor, 1)), strconv.Itoa(p.bytes))
			try := w.Do
			w.Do = func() (float64, error) {
				if stuck[r.name] != nil {
					return 0, figure.ErrLeftOut
				}
				us, err := try()
				if err != nil && r.name != rivals[0].name {
					stuck[r.name], w.Values = err, nil
					return 0, figure.ErrLeftOut
				}
				return us, err
			}
			ways = append(ways, w)
		}
		if err := figure.Measure(0, j.rounds, ways...); err != nil {
			return err
		}
		line, ratios := fmt.Sprintf("| %s, %d bytes to each |", p.pattern, p.bytes), ""
		for i, w := range ways {
			if len(w.Values) == 0 {
				line, ratios = line+" none |", ratios+" |"
				continue
			}
			line += fmt.Sprintf(" %.2f ms |", w.Median()/1000)
			if i > 0 {
				ratios += fmt.Sprintf(" %.2f |", ways[0].Over(w))
			}
		}
		table += line + ratios + "\n"
	}
	for _, r := range rivals {
		if r.divisor > 1 {
			table += fmt.Sprintf("\n%s makes one in %d of the steps.\n", r.name, r.divisor)
		}
		if err := stuck[r.name]; err != nil {
			table += fmt.Sprintf("\n%s did not end within %v: %v\n", r.name, patiencePattern,
				strings.TrimRight(err.Error(), ": \n"))
		}
	}
	fmt.Print(table)
	return figure.Keep(page, "make bench-apps", func(string) string { return table })
}

// maxCurve is the longest message of the curve.
const maxCurve = 16 << 20

// Curve measures round trips of messages of 1 byte to maxCurve between two nodes. It writes their median times in
// microseconds to the table FILE.
func Curve(args []string) error {
	var self, mpich, openMPI, file string
	size := []string{uninstalled, "2", "1"}
	return onCluster(append(size, args...), func(j job) error {
		kinds := append(rivals(self, mpich, openMPI), rival{name: "plain TCP", argv: []string{self, ":rank"}})
		table := "# " + figure.Machine() + "\nbytes"
		us := make([]map[int][]float64, len(kinds))
		var ways []*figure.Way
		for i, r := range kinds {
			pattern := "trips"
			switch r.name {
			case "ibrun":
				pattern = "curve"
			case "plain TCP":
				pattern = "tcp"
			}
			us[i] = map[int][]float64{}
			table += "\t" + r.name
			ways = append(ways, j.way(r, func(bytes int, t float64) { us[i][bytes] = append(us[i][bytes], t) },
				pattern, strconv.Itoa(maxCurve)))
		}
		if err := figure.Measure(0, j.rounds, ways...); err != nil {
			return err
		}
		for _, bytes := range message.Lengths(maxCurve) {
			table += fmt.Sprintf("\n%d", bytes)
			for i := range kinds {
				table += fmt.Sprintf("\t%.3f", figure.Median(us[i][bytes]))
			}
		}
		fmt.Println(table)
		return os.WriteFile(file, []byte(table+"\n"), 0o644)
	}, &self, &mpich, &openMPI, &file)
}
