package plan

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"ibrun/cmd/ibrun/internal/alloc"
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/internal/exit"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// managers are the managers with a starter of their own, by the words of --launcher.
var managers = map[string]string{"slurm": "Slurm", "sge": "Grid Engine", "lsf": "LSF", "flux": "Flux", "pbs": "PBS"}

// starting is how agents are started, and why so, for the user. In the job of a manager its own
// starter is taken if its command is here, unless the user says otherwise.
func starting(
	r *cli.Request, given *alloc.Allocation, at Surroundings,
) (how job.LaunchOptions, why string, err error) {
	how = r.Launch
	chosen, own := managers[how.Launcher], false
	switch {
	case len(how.Exec) > 0:
		if how.Launcher == "auto" {
			how.Launcher = "ssh"
		}
		return how, "", nil
	case chosen == "" && how.Launcher != "auto":
		return how, fmt.Sprintf("agents by %s, as --launcher says", how.Launcher), nil
	case chosen != "" && (given == nil || given.Launcher != how.Launcher):
		return how, "", exit.Usagef("--launcher %s: ibrun does not run in a job of %s that tells its hosts and its "+
			"number; hint: leave --launcher out", how.Launcher, chosen)
	case chosen != "":
		own, why = true, "as --launcher says"
	case given == nil || given.Launcher == "":
		why = "the manager has no starter whose input and output are a stream"
	case len(how.Args) > 0 || how.SSH != "auto":
		why = "as --ssh and --ssh-args are for it"
	case at.Has == nil || !at.Has(given.Starter[0]):
		why = fmt.Sprintf("%s is not there", plain.Text(given.Starter[0]))
	default:
		own, why = true, "the manager's own starter"
	}
	if !own {
		how.Launcher = "ssh"
		return how, "agents by ssh: " + why, nil
	}
	how.Launcher, how.Starter, how.Numbers = given.Launcher, given.Starter, given.Numbers
	command := plain.Text(filepath.Base(given.Starter[0]))
	if how.Launcher == "pbs" {
		command = "ssh and " + command
	}
	return how, fmt.Sprintf("agents by %s: %s", command, why), nil
}

// sharing decides whether hosts share steps. A starter for several hosts is made one for a single
// host unless the user asks: their agents call back, which opens a port
// (docs/dev/decisions/0036-shared-steps.md).
func sharing(asked bool, how job.LaunchOptions) (job.LaunchOptions, error) {
	switch {
	case asked && !how.SharesSteps():
		return how, exit.Usagef("--shared-steps: there is no starter of a resource manager that takes several hosts; " +
			"hint: leave it out, or run ibrun in a job of Slurm without --launcher ssh")
	case asked && how.Batch == 0:
		how.Batch = stepHosts
	case !asked:
		words := make([]string, len(how.Starter))
		for i, w := range how.Starter {
			words[i] = strings.ReplaceAll(w, job.StarterCount, "1")
		}
		how.Starter = words
	}
	return how, nil
}

// stepHosts is how many hosts a parent starts at once by a starter that shares steps: one costs no
// more than a few do, and what all of them say comes to this one process.
const stepHosts = 64

// endMargin is how long before the end of an allocation a job is ended, besides the grace of its
// ranks: 2 s to ask who has not ended, and what the news takes through a tree on busy nodes.
const endMargin = 10 * time.Second

// left is how long an allocation lasts from now on.
func left(a *alloc.Allocation, at Surroundings) time.Duration {
	return max(0, a.End.Sub(at.Now).Truncate(time.Second))
}

// within bounds the job's time by the end of its allocation. A job that the manager ends cannot say
// which ranks have not ended.
func (p *Plan) within(a *alloc.Allocation, grace time.Duration, at Surroundings) {
	if a == nil || a.End.IsZero() || at.Now.IsZero() {
		return
	}
	most := left(a, at) - endMargin - grace
	switch asked := p.Policy.Timeout; {
	case asked > left(a, at):
		p.Warn(fmt.Sprintf("--timeout %v is longer than %s lasts (%v): its manager will end it first", asked, nameOf(a),
			left(a, at)))
	case asked == 0 && most > 0:
		p.Policy.Timeout, p.Limited = most, true
	}
}
