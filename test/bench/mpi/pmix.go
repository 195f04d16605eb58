package mpi

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"ibrun/test/bench/figure"
)

// Bounds of jobs of Open MPI 5.
const (
	boundLaunch = 0.5 // of its own mpirun
	boundInit   = 0.8 // of Open MPI 4.1 with libpmi under ibrun
)

// patienceFleet is for one job of Open MPI 5.
const patienceFleet = time.Minute

// initialized is what mpi.c prints of its MPI_Init.
var initialized = regexp.MustCompile(`(?m)^MPI_Init: ([0-9.]+) s$`)

// newer runs a program of Open MPI under ibrun and under its own mpirun with the files of another
// suite in a root of its own: each rank enters it, and so does mpirun with its daemons.
func (j job) newer(root, program string) error {
	enter, err := filepath.Abs("bin/fleet")
	if err != nil {
		return err
	}
	inside := func(argv ...string) []string { return append([]string{enter, root}, argv...) }
	bounds := figure.Bounds{To: os.Stdout}
	for _, what := range []string{"hello", "neighbours"} {
		ours := &way{argv: j.underIbrun(inside(program, what)...)}
		theirs := &way{name: "mpirun", argv: inside("mpirun.openmpi", "--prtemca", "prte_launch_agent",
			enter+" "+root+" prted", "--hostfile", j.openMPI, "--bind-to", "none",
			"-x", "OMPI_MCA_mpi_yield_when_idle", "-n", j.ranks, program, what)}
		err := compare(j.rounds, patienceFleet, ours, theirs, func(out []byte, took time.Duration) (float64, bool) {
			return took.Seconds(), bytes.Count(out, []byte("of "+j.ranks+": "+what)) == j.nodes*j.perNode
		})
		if err != nil {
			return err
		}
		j.judge(&bounds, "Open MPI 5 "+what, ours, theirs, boundLaunch)
	}
	ours := &way{argv: j.underIbrun(inside(program, "init")...)}
	theirs := &way{name: "ibrun --mpi openmpi with Open MPI 4.1",
		argv: j.underIbrun(append([]string{"--mpi", "openmpi"}, program, "init")...)}
	err = compare(j.rounds, patienceFleet, ours, theirs, func(out []byte, _ time.Duration) (float64, bool) {
		found := initialized.FindSubmatch(out)
		if found == nil {
			return 0, false
		}
		s, err := strconv.ParseFloat(string(found[1]), 64)
		return s, err == nil
	})
	if err != nil {
		return err
	}
	j.judge(&bounds, "MPI_Init of Open MPI 5", ours, theirs, boundInit)
	return bounds.Err()
}

// judge prints what two ways took and holds their ratio against a bound. Without jobs that did well
// there is none.
func (j job) judge(bounds *figure.Bounds, what string, ours, theirs *way, most float64) {
	what = fmt.Sprintf("%d nodes x %d ranks, %s", j.nodes, j.perNode, what)
	print(what, j.rounds, ours, theirs, figure.Median[float64], 3)
	ratio := figure.Median(ours.seconds) / figure.Median(theirs.seconds)
	bounds.AtMost(what, ratio, most)
}
