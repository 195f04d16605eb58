package mpi

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"ibrun/test/bench/figure"
)

// Patience with jobs: a program of MPICH may hang between nodes, under its own launcher too.
const (
	patienceExchange = 3 * time.Minute
	patienceHello    = time.Minute
	patienceBusy     = 2 * time.Minute
)

// Bounds of an exchange of a size: the time of mpiexec.hydra divided by ibrun's.
const (
	leastOverSSH = 2.6
	leastOverRsh = 1.1
	boundNodes   = 64
	boundPerNode = 16
)

// exchange runs a PMI client that prints one line once its ranks have values of others: what is how
// its figures are called.
func (j job) exchange(what, program string) error {
	copied := j
	copied.ibrun = built
	native := &way{name: "ibrun", argv: j.underIbrun(program)}
	found := &way{name: "ibrun, not installed", argv: copied.underIbrun(program)}
	hydra := &way{name: "mpiexec.hydra", argv: j.underHydra(program)}
	rsh := &way{name: "ibrun over rsh", argv: j.underIbrun("--launcher-exec", standIn, program)}
	foundRsh := &way{name: "ibrun over rsh, not installed",
		argv: copied.underIbrun("--launcher-exec", standIn, program)}
	hydraRsh := &way{name: "mpiexec.hydra over rsh", argv: []string{"mpiexec.hydra", "-launcher", "rsh",
		"-launcher-exec", standIn, "-n", j.ranks, "-f", j.hydra, program}}
	turn := func(w *way) func() error {
		return func() error {
			out, took, err := w.run(patienceExchange)
			if lines := bytes.Count(out, []byte("\n")); err == nil && lines != 1 {
				err = fmt.Errorf("%s printed %d lines, not 1", w.name, lines)
			}
			w.seconds = append(w.seconds, took.Seconds())
			return err
		}
	}
	if err := figure.Turns(j.rounds, turn(native), turn(found), turn(hydra), turn(rsh), turn(foundRsh),
		turn(hydraRsh)); err != nil {
		return err
	}
	a, b := figure.Median(native.seconds), figure.Median(hydra.seconds)
	fmt.Printf("%s, %d nodes x %d ranks over ssh, median of %d: ibrun %.3fs, mpiexec.hydra %.3fs, ratio %.2f\n",
		what, j.nodes, j.perNode, j.rounds, a, b, a/b)
	c, d := figure.Median(rsh.seconds), figure.Median(hydraRsh.seconds)
	fmt.Printf("the same over the rsh stand-in: ibrun %.3fs, mpiexec.hydra %.3fs, ratio %.2f\n", c, d, c/d)
	bounds := figure.Bounds{To: os.Stdout}
	if j.nodes == boundNodes && j.perNode == boundPerNode {
		over := what + " on 64x16 over "
		bounds.AtLeast(over+"ssh: mpiexec.hydra / ibrun", b/a, leastOverSSH)
		bounds.AtLeast(over+"ssh: mpiexec.hydra / "+found.name, b/figure.Median(found.seconds), leastOverSSH)
		bounds.AtLeast(over+"the rsh stand-in: mpiexec.hydra / ibrun", d/c, leastOverRsh)
		bounds.AtLeast(over+"the rsh stand-in: mpiexec.hydra / "+found.name, d/figure.Median(foundRsh.seconds),
			leastOverRsh)
	}
	return bounds.Err()
}

// hello runs programs of MPICH and of Open MPI from the launch to the last word of all ranks.
func (j job) hello(mpich, openMPI string) error {
	for _, l := range []struct {
		name         string
		ours, theirs *way
	}{
		{"MPICH", &way{argv: j.underIbrun(mpich, "hello", "unfinished")},
			&way{name: "mpiexec.hydra", argv: j.underHydra(mpich, "hello", "unfinished")}},
		{"Open MPI", &way{argv: j.underIbrun(openMPI, "hello")},
			&way{name: "mpirun", argv: j.underOpenMPI(openMPI, "hello")}},
	} {
		err := compare(j.rounds, patienceHello, l.ours, l.theirs, func(out []byte, took time.Duration) (float64, bool) {
			return took.Seconds(), bytes.Count(out, []byte("of "+j.ranks+": hello")) == j.nodes*j.perNode
		})
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%d nodes x %d ranks of %s", j.nodes, j.perNode, l.name)
		print(what, j.rounds, l.ours, l.theirs, figure.Median[float64], 3)
	}
	return nil
}

// reductions is what mpi.c prints when it has made as many as busy asks for.
var reductions = regexp.MustCompile(`(?m)^60000 reductions: ([0-9.]+) s$`)

// busy runs ranks of Open MPI on two CPUs that others keep busy. Ranks that wait call sched_yield,
// which lets another rank go first only within one session (autogroups, sched(7)).
func busy(rounds int, program string) error {
	for range 2 {
		other := exec.Command("taskset", "-c", "0,1", "sh", "-c", "while :; do :; done")
		other.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		if err := other.Start(); err != nil {
			return err
		}
		defer func() {
			_ = other.Process.Kill()
			_ = other.Wait() // with the error that it was killed
		}()
	}
	job := []string{"taskset", "-c", "0,1", program, "reductions", "60000"}
	ours := &way{argv: append([]string{built, "-n", "4", "--bind-to", "none"}, job...)}
	theirs := &way{name: "mpirun",
		argv: append([]string{"mpirun.openmpi", "-n", "4", "--oversubscribe", "--bind-to", "none"}, job...)}
	err := compare(rounds, patienceBusy, ours, theirs, func(out []byte, _ time.Duration) (float64, bool) {
		found := reductions.FindSubmatch(out)
		if found == nil {
			return 0, false
		}
		s, err := strconv.ParseFloat(string(found[1]), 64)
		return s, err == nil
	})
	if err != nil {
		return err
	}
	print("4 ranks of Open MPI on 2 busy CPUs", rounds, ours, theirs, mean, 2)
	return nil
}

// mean is 0 of none.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}
