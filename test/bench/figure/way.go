package figure

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Way is a function that is measured beside others that do the same. Each call of Do measures one round and returns
// its value. Measure appends the values to Values.
type Way struct {
	Name   string
	Do     func() (float64, error)
	Values []float64
}

// ErrLeftOut is returned by Do if the round has no value. Measure then goes on.
var ErrLeftOut = errors.New("left out")

// Timed returns a Way whose values are the milliseconds that f takes.
func Timed(name string, f func() error) *Way {
	return &Way{Name: name, Do: func() (float64, error) {
		took, err := Time(f)
		return Milliseconds(took), err
	}}
}

// Measure calls Do of each way once in each round, so that other load of the machine affects all ways alike. It
// makes warm rounds whose values are dropped and then the given number of rounds. It stops at the first error.
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

// Over returns the median of w divided by the median of other.
func (w *Way) Over(other *Way) float64 { return w.Median() / other.Median() }

// Result has the output of a command, how long it ran, and its CPU time with that of its children.
type Result struct {
	Out, Said []byte // the standard output and the standard error
	Took, CPU time.Duration
}

// Run starts a command in a process group of its own and waits until it has ended. If that takes longer than
// patience, Run kills the process group. If the command fails, the error contains its standard error.
func Run(patience time.Duration, cmd *exec.Cmd) (r Result, err error) {
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.WaitDelay = time.Second // limits the wait for processes outside the group that hold the output open
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

// Job describes a job on the first nodes of a virtual cluster, and names the host files for its launchers.
type Job struct {
	Nodes, PerNode int
	Ranks          int
	Names          []string // of the nodes
	Hydra, OpenMPI string   // paths of the host files for ibrun and mpiexec.hydra, and for Open MPI
}

// NewJob writes the host files of a job to dir, and returns the Job.
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
