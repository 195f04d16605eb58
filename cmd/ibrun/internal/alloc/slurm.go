package alloc

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"ibrun/internal/hostlist"
	"ibrun/internal/job"
)

var slurmSigns = []string{"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_HET_SIZE",
	"SLURM_PACK_SIZE"}

// slurmOwn are the variables that srun sets for each task, and ibrun for each rank.
var slurmOwn = []job.RankVariable{
	{Name: "SLURM_PROCID", Fact: job.OwnRank}, {Name: "SLURM_LOCALID", Fact: job.OwnLocalRank},
	{Name: "SLURM_NODEID", Fact: job.OwnNode}, {Name: "SLURM_NTASKS", Fact: job.AllRanks},
	{Name: "SLURM_NPROCS", Fact: job.AllRanks}, {Name: "SLURMD_NODENAME", Fact: job.OwnHost},
}

// firstReserved is the first of the step numbers by which Slurm means other things than a step of
// srun's: the interactive step of salloc, the batch script, what comes by ssh.
const firstReserved = math.MaxUint32 - 15

// readSlurm reads a job of Slurm, or the step of it that ibrun is a task of.
func readSlurm(m *allocator, p Process) (*Allocation, error) {
	a := &Allocation{Confines: true, Own: slurmOwn}
	name, id := p.first("SLURM_JOB_ID", "SLURM_JOBID")
	if _, err := strconv.ParseUint(id, 10, 32); err != nil && id != "" {
		return nil, bad(name, id, errors.New("not the number of a job"))
	}
	a.ID = id
	const end = "SLURM_JOB_END_TIME" // set by Slurm since 23.02
	if v := p.get(end); v != "" {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			return nil, bad(end, v, fmt.Errorf("not a time in seconds since 1970, at most %d", uint32(math.MaxUint32)))
		}
		a.End = time.Unix(int64(n), 0).UTC()
	}
	if err := a.slurmTask(p); err != nil {
		return nil, err
	}
	// A step of one task with a terminal is the user's shell (srun --pty bash), which may use the whole job.
	shell := a.Tasks == 1 && p.get("SLURM_PTY_PORT") != ""
	groups, err := slurmGroups(p, a.Tasks > 0 && !shell)
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		return nil, none(m, "%s=%s, without SLURM_JOB_NODELIST", name, id)
	}
	all := true // groups say how many tasks were asked for
	for _, g := range groups {
		if err := a.addGroup(p, g, shell); err != nil {
			return nil, err
		}
		v := p.get(g.ranks)
		if all = all && v != "" && !shell; !all {
			continue
		}
		n, err := number(v, job.MaxRanks)
		if err != nil {
			return nil, bad(g.ranks, v, err)
		}
		a.Ranks = min(a.Ranks+n, job.MaxRanks)
	}
	if !all {
		a.Ranks = 0
	}
	if id != "" {
		a.Starter = slurmStarter(p, id, len(groups) > 1)
	}
	for n, g := range groups {
		if len(groups) > 1 {
			a.Numbers = append(a.Numbers, job.NumberedHosts{Hosts: p.get(g.list), First: uint32(n)})
		}
	}
	return a, nil
}

// slurmTask reads which task of a step this process is.
func (a *Allocation) slurmTask(p Process) error {
	name, id := p.first("SLURM_STEP_ID", "SLURM_STEPID")
	if id == "" {
		return nil
	}
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return bad(name, id, errors.New("not the number of a step"))
	}
	if n >= firstReserved {
		return nil
	}
	return a.taskOf(p, "step", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID")
}

// slurmGroup is the variables of one part of a job: of the whole job, of one step, or of one
// component of a heterogeneous job. A variable that does not exist is "".
type slurmGroup struct{ list, tasks, cpus, perTask, ranks string }

// slurmGroups finds the variables that tell the hosts.
func slurmGroups(p Process, step bool) (all []slurmGroup, err error) {
	if step && p.get("SLURM_STEP_NODELIST") != "" {
		return []slurmGroup{{list: "SLURM_STEP_NODELIST", tasks: "SLURM_STEP_TASKS_PER_NODE",
			ranks: "SLURM_STEP_NUM_TASKS"}}, nil
	}
	for _, word := range []string{"HET", "PACK"} { // until 19.05 it was a "pack"
		size, v := "SLURM_"+word+"_SIZE", p.get("SLURM_"+word+"_SIZE")
		if v == "" {
			continue
		}
		groups, err := number(v, maxGroups)
		if err != nil {
			return nil, bad(size, v, err)
		}
		for n := range groups {
			of := func(name string) string { return fmt.Sprintf("SLURM_%s_%s_GROUP_%d", name, word, n) }
			g := slurmGroup{of("JOB_NODELIST"), of("TASKS_PER_NODE"), of("JOB_CPUS_PER_NODE"), of("CPUS_PER_TASK"),
				of("NTASKS")}
			if p.get(g.list) == "" {
				return nil, bad(size, v, fmt.Errorf("%s is not set", g.list))
			}
			all = append(all, g)
		}
		return all, nil
	}
	if list, _ := p.first("SLURM_JOB_NODELIST", "SLURM_NODELIST"); list != "" {
		return []slurmGroup{{list, "SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE", "SLURM_CPUS_PER_TASK",
			"SLURM_NTASKS"}}, nil
	}
	return nil, nil
}

// maxGroups bounds the components of a heterogeneous job. Slurm's own limit is 128.
const maxGroups = 1024

// addGroup adds the hosts of a part of the job. Their slots are the tasks that Slurm would start,
// or else their CPUs by the CPUs of a task. A shell sees the number of its own step in the place of
// the job's tasks, which is 1 and says nothing.
func (a *Allocation) addGroup(p Process, g slurmGroup, shell bool) error {
	list := p.get(g.list)
	entries, err := hostlist.Names(list)
	if err != nil {
		return bad(g.list, list, err)
	}
	hosts := defaultSlots(entries)
	beside := map[string]string{
		"SLURM_JOB_NODELIST": "SLURM_JOB_NUM_NODES", "SLURM_STEP_NODELIST": "SLURM_STEP_NUM_NODES",
	}[g.list]
	if err := p.agrees(beside, hostlist.MaxHosts, g.list, count(hosts)); err != nil {
		return err
	}
	each := uint32(1)
	if v := p.get(g.perTask); v != "" {
		if each, err = number(v, job.MaxRanksOnNode); err != nil {
			return bad(g.perTask, v, err)
		}
	}
	if hosts, err = p.spread(hosts, g.cpus, each); err != nil {
		return err
	}
	used := g.cpus
	if v := p.get(g.tasks); v != "" && !(shell && v == "1") {
		used = g.tasks
		if hosts, err = p.spread(hosts, g.tasks, 1); err != nil {
			return err
		}
	}
	if a.Hosts = append(a.Hosts, hosts...); a.Source == "" {
		a.Source = g.list
		if p.get(used) != "" {
			a.Source += ", " + used
		}
	}
	return nil
}

// spread sets the slots of each host from the environment variable, which lists one number for each host in the order
// of hosts. The number of slots is the listed number divided by each, rounded down, but at least 1. If the variable is
// not set, or if its name is empty, spread returns hosts unchanged.
func (p Process) spread(hosts []hostlist.Entry, variable string, each uint32) ([]hostlist.Entry, error) {
	v := p.get(variable)
	if variable == "" || v == "" {
		return hosts, nil
	}
	numbers, err := counts(v)
	for i := range numbers {
		numbers[i].value = max(1, numbers[i].value/each)
	}
	if err == nil {
		hosts, err = spread(hosts, numbers)
	}
	if err != nil {
		return nil, bad(variable, v, err)
	}
	return hosts, nil
}

// slurmStarter is srun for agents: a step beside those of the user, with all that the job has on
// the host, and with output that is not held until a line ends. It reaches a host of a
// heterogeneous job by the number of the component only.
func slurmStarter(p Process, id string, heterogeneous bool) []string {
	argv := []string{"srun", "-Q", "--jobid=" + id, "-N" + job.StarterCount, "-n" + job.StarterCount,
		"--nodelist=" + job.StarterHost, "--overlap",
		"--mem=0", "--mpi=none", "--cpu-bind=none", "-u"}
	// Slurm since 23.11 writes its option for launchers into the environment of every job.
	if strings.Contains(p.get("HYDRA_LAUNCHER_EXTRA_ARGS"), "--external-launcher") {
		argv = append(argv, "--external-launcher")
	}
	if heterogeneous {
		argv = append(argv, "--het-group="+job.StarterNumber)
	}
	return argv
}
