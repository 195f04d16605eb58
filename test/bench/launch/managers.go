package launch

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"ibrun/test/bench/figure"
	"ibrun/test/managers"
	"ibrun/test/vcluster/cluster"
)

// Upper bounds of the time of a launch by ibrun, divided by that of plain srun.
const (
	maxOverSrun = 1.2 // for agents that are started by srun
	maxOverSSH  = 1.4 // for agents that are started over ssh
)

// Managers compares ibrun with plain srun in a job of a real Slurm, on a virtual cluster that it brings up. ibrun
// starts its agents in three ways: by one srun step for each agent, by one srun step for all agents, and over ssh.
func Managers(args []string) error {
	var ibrun string
	var nodes, each, rounds int
	if err := figure.Parse(args, &ibrun, &nodes, &each, &rounds); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
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
	job := slurm.Command(ctx, "salloc", "-Q", "-N", strconv.Itoa(nodes), "--ntasks-per-node="+strconv.Itoa(each),
		self(), ":managed", absolute(ibrun), strconv.Itoa(rounds))
	job.Stdout, job.Stderr = os.Stdout, os.Stderr
	return job.Run()
}

// Managed measures within the job that Managers submits.
func Managed(args []string) error {
	var ibrun string
	var rounds int
	if err := figure.Parse(args, &ibrun, &rounds); err != nil {
		return err
	}
	way := func(name string, argv ...string) *figure.Way {
		return figure.Timed(name, func() error {
			_, err := figure.Run(patience, exec.Command(argv[0], append(argv[1:], "true")...))
			return err
		})
	}
	plain, step := way("srun", "srun"), way("ibrun over srun", ibrun, "--launcher", "slurm")
	ssh := way("ibrun over ssh", ibrun, "--launcher", "ssh")
	shared := way("ibrun over a shared step of srun", ibrun, "--launcher", "slurm", "--shared-steps")
	if err := figure.Measure(1, rounds, plain, step, ssh, shared); err != nil { // the first round fills caches
		return err
	}
	fmt.Println(figure.Machine())
	fmt.Printf("%s nodes, %s ranks, medians of %d turns: srun %.0f ms\n", os.Getenv("SLURM_JOB_NUM_NODES"),
		os.Getenv("SLURM_NTASKS"), rounds, plain.Median())
	bounds := figure.Bounds{To: os.Stdout}
	for _, w := range []*figure.Way{step, shared, ssh} {
		fmt.Printf("%s: %.0f ms\n", w.Name, w.Median())
		bound := maxOverSrun
		if w == ssh {
			bound = maxOverSSH
		}
		bounds.AtMost(w.Name+" / srun", w.Over(plain), bound)
	}
	return bounds.Err()
}
