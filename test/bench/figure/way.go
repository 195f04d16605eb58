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

// Way is one of several ways to do the same thing. Do measures one round, and Values has its results.
type Way struct {
	Name   string
	Do     func() (float64, error)
	Values []float64
}

// ErrLeftOut is returned by Do for a round that does not count.
var ErrLeftOut = errors.New("left out")

// Timed returns a way whose values are the milliseconds that a function takes.
func Timed(name string, f func() error) *Way {
	return &Way{Name: name, Do: func() (float64, error) {
		took, err := Time(f)
		return Milliseconds(took), err
	}}
}

// Measure runs each way once in each round, so that other load of the machine affects all of them alike. It
// drops the values of the first warm rounds, and returns at the first error.
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

// Median returns the median of the rounds.
func (w *Way) Median() float64 { return Median(w.Values) }

// Over returns the median of w divided by the median of another way.
func (w *Way) Over(other *Way) float64 { return w.Median() / other.Median() }

// Result is the output of a command and the time that it used.
type Result struct {
	Out, Said []byte // its standard output and its standard error
	Took, CPU time.Duration
}

// Run runs a command to its end. After patience it kills the command's process group. An error contains the
// standard error of the command.
func Run(patience time.Duration, cmd *exec.Cmd) (r Result, err error) {
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.WaitDelay = time.Second // for a process that has left the group and still has the standard output open
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

// Job describes a job on the first nodes of a virtual cluster, with host files for launchers.
type Job struct {
	Nodes, PerNode int
	Ranks          int
	Names          []string // of the nodes
	Hydra, OpenMPI string   // host files: one for ibrun and mpiexec.hydra, one for Open MPI
}

// NewJob returns a Job whose host files are in a folder.
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
