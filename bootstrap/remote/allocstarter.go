package remote

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"ibrun/internal/hostlist"
	"ibrun/internal/job"
)

// allocStarter represents the command of a resource manager, such as srun, that starts agents on allocated nodes.
// The field words is parsed from job.LaunchOptions.Starter.
type allocStarter struct {
	words   []string
	runs    bool     // the command accepts a program with arguments; if false, it accepts text for a shell
	keeps   []string // names of the environment variables that the command gets; nil means all
	numbers []numbered
}

// numbered are hosts with their numbers.
type numbered struct {
	hosts       []hostlist.Entry
	first, step uint32
}

// slurmEnvironment are the variables that srun needs. It reads most others that Slurm sets in a job
// as options of its own: with SLURM_NTASKS_PER_NODE=2 it would start two agents.
var slurmEnvironment = []string{"SLURM_JOB_ID", "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_WORKING_CLUSTER", "SLURM_JWT",
	"PATH", "HOME", "USER", "LOGNAME", "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "TMPDIR"}

// stepWords are what srun needs besides for a step of several hosts: the end of a task or the loss
// of a node does not end the others, whatever is configured. Links are no pipes of srun there.
var stepWords = []string{"--input=none", "--no-kill", "--kill-on-bad-exit=0", "--wait=0"}

// In the environment of a step's task: the address from which it was started, and the name by which
// its host was given to the starter.
const (
	stepAddress = "SLURM_LAUNCH_NODE_IPADDR"
	stepHost    = "SLURMD_NODENAME"
)

// newAllocStarter is the starter for a way of launching, or nil if that is no manager's.
func newAllocStarter(how job.LaunchOptions) *allocStarter {
	m := &allocStarter{}
	switch how.Launcher {
	case "slurm":
		m.runs, m.keeps = true, slurmEnvironment
	case "flux":
		m.runs = true
	case "sge", "lsf":
	default:
		return nil
	}
	m.words = slices.Clone(how.Starter)
	at := len(m.words)
	if at > 0 && m.words[at-1] == job.StarterHost { // options stand before it
		at--
	}
	m.words = slices.Insert(m.words, at, how.Args...)
	for _, n := range how.Numbers {
		if hosts, err := hostlist.Names(n.Hosts); err == nil {
			m.numbers = append(m.numbers, numbered{hosts, n.First, n.Step})
		}
	}
	return m
}

// argv is the command that has a shell run text on hosts: on one, or on several of the same number
// if the starter shares steps.
func (m *allocStarter) argv(text string, hosts ...string) []string {
	put := strings.NewReplacer(job.StarterHost, strings.Join(hosts, ","), job.StarterNumber, m.number(hosts[0]),
		job.StarterCount, strconv.Itoa(len(hosts)))
	var argv []string
	for _, word := range m.words {
		argv = append(argv, put.Replace(word))
	}
	if len(hosts) > 1 {
		argv = append(argv, stepWords...)
	}
	if m.runs {
		argv = append(argv, "/bin/sh", "-c")
	}
	return append(argv, text)
}

// number is that of a host; "": it has none.
func (m *allocStarter) number(host string) string {
	for _, list := range m.numbers {
		before := uint32(0)
		for _, e := range list.hosts {
			run := runOf(e)
			for i := range e.Count {
				if run.Host(i) == host {
					return strconv.FormatUint(uint64(list.first+list.step*(before+i)), 10)
				}
			}
			before += e.Count
		}
	}
	return ""
}

func runOf(e hostlist.Entry) job.Run {
	return job.Run{Prefix: e.Prefix, Suffix: e.Suffix, Width: uint8(e.Width), Lo: e.Lo, Count: e.Count}
}

// environ is what of this process's environment the starter sees.
func (m *allocStarter) environ() []string {
	env := os.Environ()
	if m.keeps == nil {
		return env
	}
	return slices.DeleteFunc(env, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !slices.Contains(m.keeps, name)
	})
}

// joining is shell text with which a session that came by ssh joins the job of a manager; "": none.
func joining(how job.LaunchOptions) string {
	if how.Launcher != "pbs" || len(how.Starter) == 0 {
		return ""
	}
	return `"` + strings.Join(how.Starter, `" "`) + `" $$ >/dev/null 2>&1; `
}
