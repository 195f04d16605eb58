// Package run collects the properties of this process that a plan depends on, checks the programs and the launcher of a
// plan, and runs the root agent. It does not change the plan.
//
// Load and Doctor ask every node for its load or its properties. They run a job of one rank on each node, which is
// ibrun itself in a hidden role, and collect what the ranks print.
//
// The package also has the variables of the MPIR process acquisition interface, in which debuggers find the processes
// of a job: MPIR_proctable, MPIR_Breakpoint and others (mpir_amd64.s).
package run

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/agent"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/spawn"
	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/tree/costs"
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/cmd/ibrun/internal/plan"
	"ibrun/internal/exit"
	"ibrun/internal/limits"
	"ibrun/topo/capture"
)

// Here is what the job takes over from this process.
func Here() (plan.Surroundings, error) {
	at := plan.Surroundings{
		Env: os.Environ(), Limits: limits.Original(), Read: cli.ReadTextFile, Machine: capture.Machine,
		Ask: ask, Has: has, Now: time.Now(),
		Window: agent.WindowOf(os.Stdin),
	}
	var err error
	if at.Host, err = os.Hostname(); err != nil {
		return at, err
	}
	at.Host = strings.ToLower(at.Host)
	if at.Cwd, err = os.Getwd(); err != nil {
		return at, exit.Usagef("the working directory cannot be told: %v; change to one that exists", err)
	}
	at.Costs = func() tree.CostCache { return costs.Read(costs.Path(at.Env)) }
	if u, err := user.Current(); err == nil {
		at.User = u.Username
	}
	mask := unix.Umask(0)
	unix.Umask(mask)
	at.Umask = uint32(mask)
	return at, nil
}

// has reports whether a command can be run here.
func has(command string) bool {
	_, err := exec.LookPath(command)
	return err == nil
}

// askTimeout limits the run time of a command of a resource manager, such as squeue.
const askTimeout = 10 * time.Second

// ask runs a command of a resource manager and returns its standard output. If the command fails, the error contains
// the last line that the command wrote to standard error.
func ask(argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	last := ""
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		lines := strings.Split(strings.TrimSpace(string(failed.Stderr)), "\n")
		last = lines[len(lines)-1]
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("no answer within %v", askTimeout)
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("not found in PATH")
	case last != "":
		return nil, errors.New(last)
	case err != nil:
		return nil, exit.Cause(err)
	}
	return out, nil
}

// NewIdentity is a new start of a job.
func NewIdentity() (i plan.Identity) {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails: Go ends the program instead
	_, _ = rand.Read(i.Secret[:])
	i.ID = hex.EncodeToString(id[:])
	return i
}

// Prepared is a plan whose programs have been looked for.
func Prepared(p *plan.Plan, err error) (*plan.Plan, error) {
	if err != nil || !p.Preflight {
		return p, err
	}
	for _, prog := range p.Job.Programs {
		if err := spawn.Preflight(prog); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Job runs the job of plan p to its end. It sets the fields of cfg that p and at determine.
func Job(p *plan.Plan, at plan.Surroundings, cfg agent.RootConfig) (core.Outcome, error) {
	starter, err := remote.New(p.Job.Launch, nil)
	if err == nil && (p.Nodes.Len() > 1 || p.Here < 0) {
		err = starter.Check()
	}
	if err != nil {
		return core.Outcome{}, err
	}
	cfg.Job, cfg.Nodes, cfg.Here, cfg.Host, cfg.Policy, cfg.Stdin = p.Job, p.Nodes, p.Here, at.Host, p.Policy, os.Stdin
	cfg.Offspring.Alloc, cfg.Offspring.KillOnBad, cfg.Offspring.Wait = p.Alloc, p.Policy.KillOnBad, p.Policy.Wait
	return agent.RunRoot(context.Background(), cfg)
}
