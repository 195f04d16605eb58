package mpi

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"ibrun/test/bench/figure"
)

// way is one launcher with a job.
type way struct {
	name    string
	argv    []string
	seconds []float64 // of jobs that did well
}

// environ is what launchers of Open MPI need on two CPUs, and as root.
var environ = []string{"UCX_TCP_PUT_ENABLE=n", "OMPI_MCA_mpi_yield_when_idle=1",
	"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}

// run runs the job once. What hangs is killed after patience with all that it started here. Errors
// have what the job wrote to its standard error.
func (w *way) run(patience time.Duration) (out []byte, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.argv[0], w.argv[1:]...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for what has left the group with its standard output
	var said bytes.Buffer
	cmd.Stderr = &said
	took, err = figure.Time(func() (err error) { out, err = cmd.Output(); return err })
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", w.name, err, said.Bytes())
	}
	return out, took, err
}

// compare lets two ways take turns. The function seconds says what a job took, by its output or by
// how long it ran; false leaves the job out, as one that failed or hung (docs/mpi-programs.md).
func compare(rounds int, patience time.Duration, ours, theirs *way,
	seconds func(out []byte, took time.Duration) (float64, bool)) error {
	for _, w := range []*way{ours, theirs} {
		if _, err := exec.LookPath(w.argv[0]); err != nil {
			return err
		}
	}
	turn := func(w *way) func() error {
		return func() error {
			out, took, _ := w.run(patience) // however it ends, its output tells
			if s, ok := seconds(out, took); ok {
				w.seconds = append(w.seconds, s)
			}
			return nil
		}
	}
	return figure.Turns(rounds, turn(ours), turn(theirs))
}

// print writes what two ways took, by a middle of the jobs that did well, with so many digits.
func print(what string, rounds int, ours, theirs *way, middle func([]float64) float64, digits int) {
	a, b, ratio := middle(ours.seconds), middle(theirs.seconds), "none"
	if b > 0 {
		ratio = fmt.Sprintf("%.2f", a/b)
	}
	fmt.Printf("%s: ibrun %.*f s (%d of %d), %s %.*f s (%d of %d), ratio %s\n", what,
		digits, a, len(ours.seconds), rounds, theirs.name, digits, b, len(theirs.seconds), rounds, ratio)
}
