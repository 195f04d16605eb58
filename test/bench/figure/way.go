package figure

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Way represents one of the functions or programs that a benchmark compares, such as one launcher. Do runs it once
// and returns the measured value. Measure appends the value of each round to Values.
type Way struct {
	Name   string
	Do     func() (float64, error)
	Values []float64
}

// ErrLeftOut is returned by Way.Do if it has no value for the round, for example because a program hung. Measure then
// stores no value for this round, and continues.
var ErrLeftOut = errors.New("left out")

// Timed returns a Way that calls f. Its values are the durations of these calls in milliseconds.
func Timed(name string, f func() error) *Way {
	return &Way{Name: name, Do: func() (float64, error) {
		took, err := Time(f)
		return Milliseconds(took), err
	}}
}

// Measure runs warm+rounds rounds. In each round it calls Do of each way once, so that other load of the machine
// affects all ways alike. It drops the values of the first warm rounds. It returns at the first error other than
// ErrLeftOut.
func Measure(warm, rounds int, ways ...*Way) error {
	for round := range warm + rounds {
		for _, w := range ways {
			v, err := w.Do()
			if err != nil && !errors.Is(err, ErrLeftOut) {
				return fmt.Errorf("%s: %w", w.Name, err)
			}
			if err == nil && round >= warm {
				w.Values = append(w.Values, v)
			}
		}
	}
	return nil
}

// Median returns the median of w.Values.
func (w *Way) Median() float64 { return Median(w.Values) }

// Over returns the median of w.Values divided by the median of other.Values.
func (w *Way) Over(other *Way) float64 { return w.Median() / other.Median() }

// Ratio returns the median of the ratios of the values of w and other, paired by round, and the ends of its 95 %
// confidence interval (order statistics of the sign test). With fewer than 6 rounds these are the least and the
// largest ratio.
func (w *Way) Ratio(other *Way) (low, middle, high float64) {
	var ratios []float64
	for i := range min(len(w.Values), len(other.Values)) {
		ratios = append(ratios, w.Values[i]/other.Values[i])
	}
	n := len(ratios)
	slices.Sort(ratios)
	outside := 0 // the number of ratios below the interval, and above it
	chance := math.Pow(0.5, float64(n))
	for sum := chance; sum <= 0.025; outside++ { // sum: the chance that at most outside ratios are below the median
		chance *= float64(n-outside) / float64(outside+1)
		sum += chance
	}
	outside = max(outside-1, 0)
	return ratios[outside], Median(ratios), ratios[n-1-outside]
}

// Result holds the output of a command, its wall time (Took), and its CPU time with that of its children (CPU). CPU
// is 0 if the command failed.
type Result struct {
	Out, Said []byte // standard output and standard error
	Took, CPU time.Duration
}

// Run starts a command in a new process group and waits for its end. If the command runs longer than patience, Run
// kills the process group. If the command fails, the error contains its standard error.
func Run(patience time.Duration, cmd *exec.Cmd) (r Result, err error) {
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.WaitDelay = time.Second // waits at most 1 s for other processes that hold the output open
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	r.Took, err = Time(func() error {
		if err := cmd.Start(); err != nil {
			return err
		}
		defer time.AfterFunc(patience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }).Stop()
		return cmd.Wait()
	})
	r.Out, r.Said = out.Bytes(), said.Bytes()
	if err != nil {
		return r, fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, r.Said)
	}
	r.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return r, nil
}

// Job describes a job on the first Nodes nodes of a virtual cluster, with PerNode ranks on each node. Its host files
// list these nodes for the launchers.
type Job struct {
	Nodes, PerNode int
	Ranks          int
	Names          []string // of the nodes
	Hydra, OpenMPI string   // paths of the host files for ibrun and mpiexec.hydra, and for Open MPI
}

// NewJob writes the host files of a job to the folder dir, and returns the Job.
func NewJob(dir string, nodes, perNode int) (*Job, error) {
	j := &Job{Nodes: nodes, PerNode: perNode, Ranks: nodes * perNode, Names: Names(nodes),
		Hydra: filepath.Join(dir, "hydra"), OpenMPI: filepath.Join(dir, "openmpi")}
	var colons, slots strings.Builder
	for _, n := range j.Names {
		fmt.Fprintf(&colons, "%s:%d\n", n, perNode)
		fmt.Fprintf(&slots, "%s slots=%d\n", n, perNode)
	}
	return j, errors.Join(os.WriteFile(j.Hydra, []byte(colons.String()), 0o644),
		os.WriteFile(j.OpenMPI, []byte(slots.String()), 0o644))
}

// Names returns the names of the first nodes of a virtual cluster.
func Names(nodes int) (names []string) {
	for i := range nodes {
		names = append(names, fmt.Sprintf("node%04d", i+1))
	}
	return names
}
