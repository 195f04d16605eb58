// Package mpi compares PMI and MPI programs under ibrun with the same programs under their own launchers, in turns.
// It also compares programs that send the same messages with package ibrun and over MPI. Busy and Agent run on any
// machine. All other subcommands run on the host "front" of a virtual cluster. The working directory must have
// bin/ibrun, and for Newer also bin/fleet. The script test/bench/run builds all programs and starts the cluster.
package mpi

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"ibrun/test/bench/figure"
)

// uninstalled is the path of an ibrun that is not below /usr or /opt. Nodes check the file of such a program before
// they start it. The argument IBRUN of a subcommand is the path of a copy below /opt (test/installed).
const uninstalled = "bin/ibrun"

// rshStandIn is the path of the rsh stand-in on each host of a virtual cluster (cluster.VRSH).
const rshStandIn = "/run/vcluster/vrsh"

// job describes a job on a virtual cluster and its measurement.
type job struct {
	*figure.Job
	ibrun  string // the path of ibrun
	ranks  string // the number of all ranks in decimal, for the command lines of launchers
	rounds int    // how often the job is measured
}

// onCluster parses the arguments IBRUN NODES PERNODE ROUNDS, and stores further arguments in the variables that the
// elements of texts point to. Then it writes host files for the job and calls measure.
func onCluster(args []string, measure func(job) error, texts ...any) error {
	var ibrun string
	var nodes, perNode, rounds int
	if err := figure.Parse(args, append([]any{&ibrun, &nodes, &perNode, &rounds}, texts...)...); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-mpi-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	files, err := figure.NewJob(dir, nodes, perNode)
	if err != nil {
		return err
	}
	return measure(job{files, ibrun, strconv.Itoa(files.Ranks), rounds})
}

func (j job) underIbrun(argv ...string) []string {
	return append([]string{j.ibrun, "-n", j.ranks, "-f", j.Hydra}, argv...)
}

// run runs the command line argv, for at most patience. It sets variables of the environment with which Open MPI runs
// as root, waiting ranks of Open MPI yield, and MPICH does not use UCX puts over TCP (docs/mpi.md).
func run(patience time.Duration, argv []string) (figure.Result, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "UCX_TCP_PUT_ENABLE=n", "OMPI_MCA_mpi_yield_when_idle=1",
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	return figure.Run(patience, cmd)
}

// reader is a function that returns the time of a job in seconds: either the time that the job has printed, or how
// long it ran. If the output is incomplete, because the job failed or hung (docs/mpi-programs.md), it returns
// figure.ErrLeftOut.
type reader func(r figure.Result) (float64, error)

// greeted returns a reader for jobs in which each rank prints text after its number, such as "rank 0 of 4: hello".
// Its time is how long the job ran.
func (j job) greeted(text string) reader {
	return func(r figure.Result) (float64, error) {
		if bytes.Count(r.Out, []byte("of "+j.ranks+": "+text)) != j.Ranks {
			return 0, figure.ErrLeftOut
		}
		return r.Took.Seconds(), nil
	}
}

// printed returns a reader that finds the time in the output. The first group of pattern matches the seconds.
func printed(pattern *regexp.Regexp) reader {
	return func(r figure.Result) (float64, error) {
		found := pattern.FindSubmatch(r.Out)
		if found == nil {
			return 0, figure.ErrLeftOut
		}
		return strconv.ParseFloat(string(found[1]), 64)
	}
}

// compare runs two command lines in turns: ours under ibrun, and theirs under another launcher. Jobs for which read
// returns figure.ErrLeftOut do not count. middle reduces the times of all other jobs of a launcher to one value, such
// as their median. compare prints both values and returns the value of ours divided by that of theirs.
func compare(what string, rounds int, patience time.Duration, read reader, middle func([]float64) float64,
	ours []string, theirName string, theirs []string) (ratio float64, err error) {
	way := func(name string, argv []string) *figure.Way {
		return &figure.Way{Name: name, Do: func() (float64, error) {
			if _, err := exec.LookPath(argv[0]); err != nil {
				return 0, err
			}
			r, _ := run(patience, argv) // if the job fails, read returns ErrLeftOut
			return read(r)
		}}
	}
	a, b := way("ibrun", ours), way(theirName, theirs)
	if err := figure.Measure(0, rounds, a, b); err != nil {
		return 0, err
	}
	ratio = middle(a.Values) / middle(b.Values)
	fmt.Printf("%s: ibrun %.3f s (%d of %d), %s %.3f s (%d of %d), ratio %.2f\n", what,
		middle(a.Values), len(a.Values), rounds, b.Name, middle(b.Values), len(b.Values), rounds, ratio)
	return ratio, nil
}

// Hello compares how long a job of a small MPI program takes from the launch to the end, under ibrun and under
// mpiexec.hydra or mpirun. MPICH and OPENMPI are paths of test/mpi/testdata/mpi.c, compiled with each library. With
// MPICH the program does not call MPI_Finalize: ranks on several nodes sometimes hang in it, also under mpiexec.hydra
// (docs/mpi-programs.md).
func Hello(args []string) error {
	var mpich, openMPI string
	return onCluster(args, func(j job) error {
		compare := func(library string, ours []string, name string, theirs []string) error {
			what := fmt.Sprintf("%d nodes x %d ranks of %s", j.Nodes, j.PerNode, library)
			_, err := compare(what, j.rounds, time.Minute, j.greeted("hello"), figure.Median[float64],
				ours, name, theirs)
			return err
		}
		if err := compare("MPICH", j.underIbrun(mpich, "hello", "unfinished"), "mpiexec.hydra",
			[]string{"mpiexec.hydra", "-launcher", "ssh", "-n", j.ranks, "-f", j.Hydra, mpich, "hello",
				"unfinished"}); err != nil {
			return err
		}
		return compare("Open MPI", j.underIbrun(openMPI, "hello"), "mpirun", []string{"mpirun.openmpi", "--hostfile",
			j.OpenMPI, "-x", "OMPI_MCA_mpi_yield_when_idle", "-n", j.ranks, openMPI, "hello"})
	}, &mpich, &openMPI)
}

// Lower bounds of the time of mpiexec.hydra divided by that of ibrun, for a PMI exchange on boundNodes nodes with
// boundPerNode ranks each.
const (
	minOverSSH   = 2.6 // for sessions over ssh
	minOverRsh   = 1.1 // for sessions over the rsh stand-in
	boundNodes   = 64
	boundPerNode = 16
)

// Exchange measures jobs whose ranks exchange values over PMI. GO is the program test/pmi, and C is c/exchange.c.
// Both programs run over ssh and over the rsh stand-in, under the installed IBRUN, under bin/ibrun, which is not
// installed, and under mpiexec.hydra.
func Exchange(args []string) error {
	var inGo, inC string
	return onCluster(args, func(j job) error {
		bounds := figure.Bounds{To: os.Stdout}
		for _, of := range []struct{ what, program string }{{"PMI exchange", inGo},
			{"PMI exchange of programs in C", inC}} {
			if err := j.exchange(of.what, of.program, &bounds); err != nil {
				return err
			}
		}
		return bounds.Err()
	}, &inGo, &inC)
}

// exchange measures jobs of one program over ssh and over the rsh stand-in. Rank 0 of the program must print one
// line.
func (j job) exchange(what, program string, bounds *figure.Bounds) error {
	way := func(name string, argv ...string) *figure.Way {
		return &figure.Way{Name: name, Do: func() (float64, error) {
			r, err := run(3*time.Minute, append(argv, "-n", j.ranks, "-f", j.Hydra, program))
			if lines := bytes.Count(r.Out, []byte("\n")); err == nil && lines != 1 {
				err = fmt.Errorf("%d lines were printed, want 1", lines)
			}
			return r.Took.Seconds(), err
		}}
	}
	const ours, copied, hydra = "ibrun", "ibrun, not installed", "mpiexec.hydra"
	rsh := []string{"--launcher-exec", rshStandIn}
	ways := []*figure.Way{way(ours, j.ibrun), way(copied, uninstalled), way(hydra, hydra, "-launcher", "ssh"),
		way(ours, append([]string{j.ibrun}, rsh...)...), way(copied, append([]string{uninstalled}, rsh...)...),
		way(hydra, hydra, "-launcher", "rsh", "-launcher-exec", rshStandIn)}
	if err := figure.Measure(0, j.rounds, ways...); err != nil {
		return err
	}
	for i, over := range []struct {
		name  string
		bound float64
	}{{"ssh", minOverSSH}, {"the rsh stand-in", minOverRsh}} {
		theirs := ways[3*i+2]
		fmt.Printf("%s, %d nodes x %d ranks over %s, medians of %d: %s %.3f s\n",
			what, j.Nodes, j.PerNode, over.name, j.rounds, hydra, theirs.Median())
		for _, w := range ways[3*i : 3*i+2] {
			fmt.Printf("  %s %.3f s, ratio %.2f\n", w.Name, w.Median(), w.Over(theirs))
			if j.Nodes == boundNodes && j.PerNode == boundPerNode {
				bounds.AtLeast(fmt.Sprintf("%s on 64x16 over %s: %s / %s", what, over.name, hydra, w.Name),
					theirs.Over(w), over.bound)
			}
		}
	}
	return nil
}

// Bounds of jobs of Open MPI 5.
const (
	maxLaunch = 0.5 // the time under ibrun, divided by that under its own mpirun
	maxInit   = 0.8 // the time of MPI_Init, divided by that of Open MPI 4.1 with libpmi under ibrun
)

// Newer measures a program of Open MPI 5 under ibrun and under its own mpirun. Open MPI 5 is installed in the root
// file system ROOT, which test/fleet has made. bin/fleet runs the ranks, mpirun and its daemons with the files of
// ROOT.
func Newer(args []string) error {
	var root, program string
	enter, err := filepath.Abs("bin/fleet")
	if err != nil {
		return err
	}
	return onCluster(args, func(j job) error {
		bounds := figure.Bounds{To: os.Stdout}
		inside := func(argv ...string) []string { return append([]string{enter, root}, argv...) }
		measure := func(what string, bound float64, read reader, ours []string, name string, theirs []string) error {
			what = fmt.Sprintf("%d nodes x %d ranks, %s", j.Nodes, j.PerNode, what)
			ratio, err := compare(what, j.rounds, time.Minute, read, figure.Median[float64], ours, name, theirs)
			if err == nil {
				bounds.AtMost(what, ratio, bound)
			}
			return err
		}
		for _, what := range []string{"hello", "neighbours"} {
			theirs := inside("mpirun.openmpi", "--prtemca", "prte_launch_agent", enter+" "+root+" prted",
				"--hostfile", j.OpenMPI, "--bind-to", "none", "-x", "OMPI_MCA_mpi_yield_when_idle",
				"-n", j.ranks, program, what)
			if err := measure("Open MPI 5 "+what, maxLaunch, j.greeted(what), j.underIbrun(inside(program, what)...),
				"mpirun", theirs); err != nil {
				return err
			}
		}
		if err := measure("MPI_Init of Open MPI 5", maxInit,
			printed(regexp.MustCompile(`(?m)^MPI_Init: ([0-9.]+) s$`)), j.underIbrun(inside(program, "init")...),
			"ibrun --mpi openmpi with Open MPI 4.1", j.underIbrun("--mpi", "openmpi", program, "init")); err != nil {
			return err
		}
		return bounds.Err()
	}, &root, &program)
}

// Busy measures four ranks of Open MPI on two CPUs that two other processes keep busy. A rank that waits calls
// sched_yield. If the kernel groups processes by session (autogroups, sched(7)), that lets another rank run first
// only if both ranks are in the same session.
func Busy(args []string) error {
	var program string
	var rounds int
	if err := figure.Parse(args, &rounds, &program); err != nil {
		return err
	}
	for range 2 {
		other := exec.Command("taskset", "-c", "0,1", "sh", "-c", "while :; do :; done")
		other.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		if err := other.Start(); err != nil {
			return err
		}
		defer func() {
			_ = other.Process.Kill()
			_ = other.Wait() // fails, because the process was killed
		}()
	}
	job := []string{"-n", "4", "--bind-to", "none", "taskset", "-c", "0,1", program, "reductions", "60000"}
	mean := func(values []float64) float64 {
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		return sum / float64(max(1, len(values)))
	}
	_, err := compare("4 ranks of Open MPI on 2 busy CPUs", rounds, 2*time.Minute,
		printed(regexp.MustCompile(`(?m)^60000 reductions: ([0-9.]+) s$`)), mean,
		append([]string{uninstalled}, job...), "mpirun", append([]string{"mpirun.openmpi", "--oversubscribe"}, job...))
	return err
}
