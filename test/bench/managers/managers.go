// Package managers holds ibrun in a job of a real Slurm against plain srun, turn by turn: agents
// over a step of srun for each, over one for all, and over ssh. It brings its own cluster up:
//
//	bench managers IBRUN NODES PERNODE ROUNDS
//
// It fails if a launch takes more than a given share of srun's time, and refuses to measure what
// runs longer than true does.
package managers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"ibrun/test/bench/figure"
	"ibrun/test/managers"
	"ibrun/test/vcluster/cluster"
)

// What a launch may take of the time of plain srun.
const (
	mostOverSrun = 1.2
	mostOverSSH  = 1.4
)

// patience bounds the whole run.
const patience = 20 * time.Minute

// Run is the subcommand.
func Run(args []string) error {
	if len(args) == 3 && args[0] == "inside" {
		return inside(args[1], args[2])
	}
	if len(args) != 4 {
		return errors.New("usage: bench managers IBRUN NODES PERNODE ROUNDS")
	}
	nodes, err := strconv.Atoi(args[1])
	if err != nil || nodes < 1 {
		return fmt.Errorf("invalid number of nodes: %q", args[1])
	}
	each, err := strconv.Atoi(args[2])
	if err != nil || each < 1 {
		return fmt.Errorf("invalid number of ranks on a node: %q", args[2])
	}
	rounds, err := figure.Rounds(args[3])
	if err != nil {
		return err
	}
	return compare(args[0], nodes, each, rounds)
}

func compare(ibrun string, nodes, each, rounds int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := cluster.Up(ctx, cluster.Config{Nodes: nodes})
	if err != nil {
		return err
	}
	var slurm *managers.Slurm
	defer func() {
		_ = c.Close()
		if slurm != nil {
			slurm.RemoveGroups()
		}
	}()
	slurm, err = managers.StartSlurm(ctx, c, managers.SlurmConfig{CPUs: max(4, each)})
	if err != nil {
		return err
	}
	defer slurm.Close()
	if ibrun, err = filepath.Abs(ibrun); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	job := slurm.Command(ctx, "salloc", "-Q", "-N", strconv.Itoa(nodes), "--ntasks-per-node="+strconv.Itoa(each), self,
		"managers", "inside", ibrun, strconv.Itoa(rounds))
	job.Stdout, job.Stderr = os.Stdout, os.Stderr
	return job.Run()
}

// inside measures within the job.
func inside(ibrun, turns string) error {
	rounds, err := figure.Rounds(turns)
	if err != nil {
		return err
	}
	ways := [][]string{{"srun", "true"}, {ibrun, "--launcher", "slurm", "true"}, {ibrun, "--launcher", "ssh", "true"},
		{ibrun, "--launcher", "slurm", "--shared-steps", "true"}}
	took := make([][]float64, len(ways))
	var each []func() error
	for i, way := range ways {
		if err := run(way); err != nil { // costs are learned from, caches are filled
			return err
		}
		each = append(each, func() error {
			t, err := figure.Time(func() error { return run(way) })
			took[i] = append(took[i], figure.Milliseconds(t))
			return err
		})
	}
	if err := figure.Turns(rounds, each...); err != nil {
		return err
	}
	plain := figure.Median(took[0])
	fmt.Println(figure.Machine())
	fmt.Printf("%s nodes, %s ranks, medians of %d turns: srun %.0f ms, ibrun over srun %.0f ms, over ssh %.0f ms, "+
		"over a shared step %.0f ms\n",
		os.Getenv("SLURM_JOB_NUM_NODES"), os.Getenv("SLURM_NTASKS"), rounds, plain, figure.Median(took[1]),
		figure.Median(took[2]), figure.Median(took[3]))
	bounds := figure.Bounds{To: os.Stdout}
	bounds.AtMost("ibrun over srun / srun", figure.Median(took[1])/plain, mostOverSrun)
	bounds.AtMost("ibrun over a shared step of srun / srun", figure.Median(took[3])/plain, mostOverSrun)
	bounds.AtMost("ibrun over ssh / srun", figure.Median(took[2])/plain, mostOverSSH)
	return bounds.Err()
}

// run runs a command, and says what it said if it fails.
func run(argv []string) error {
	var said bytes.Buffer
	c := exec.Command(argv[0], argv[1:]...)
	c.Stderr = &said
	if err := c.Run(); err != nil {
		return fmt.Errorf("%v: %w: %s", argv, err, said.Bytes())
	}
	return nil
}
