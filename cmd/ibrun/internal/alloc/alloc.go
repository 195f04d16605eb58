// Package alloc reads the allocation that a process runs in: which nodes a resource manager has
// given to its job, how many ranks each is for, and what else the manager tells. It knows Slurm,
// PBS, LSF, Grid Engine, Flux and others by their variables. docs/managers.md has the rules.
//
// The environment, files and answers of commands reach it through Process. It resolves no name,
// starts nothing and chooses no ranks. What contradicts itself is an error that names the variable.
//
// The package also parses the rank files of Open MPI, which name a host and cores for each rank.
package alloc

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"ibrun/internal/exit"
	"ibrun/internal/hostlist"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// Process is what a process sees of the manager that has started it.
type Process struct {
	Env  []string // NAME=VALUE
	Host string   // this machine's name, in lower case

	Read func(name string) ([]byte, error) // returns the content of a file that a variable names
	Ask  func(argv ...string) ([]byte, error)
	// Ask runs a command of the resource manager and returns its standard output. It is used only for Flux.
}

// Allocation represents the hosts that a resource manager has allocated to a job.
type Allocation struct {
	Manager string           // name of the resource manager, for messages to the user
	ID      string           // ID of the job, as the resource manager writes it; empty if unknown
	Hosts   []hostlist.Entry // allocated hosts; Slots is the number of ranks for each host of an entry, at least 1
	Ranks   uint32           // number of ranks that the user requested from the manager; if 0, one for each slot
	End     time.Time        // time at which the manager ends the job; zero if unknown
	Source  string           // variables or commands from which Hosts was read

	// Confines says that the job has these hosts and no others. The host file of another launcher
	// does not confine.
	Confines bool

	// Launcher is the word by which --launcher chooses the manager's Starter; empty: it has none.
	Launcher string

	// Starter is the manager's own command to start an agent on a host of the job, as
	// job.LaunchOptions has it. For PBS it is what a process that came by ssh joins the job with.
	Starter []string

	// Numbers are those by which Starter names hosts.
	Numbers []job.NumberedHosts

	// Own are the variables by which the manager's own starter tells tasks who they are.
	Own []job.RankVariable

	// Local are variables whose values hold on the first node only, besides those of every login.
	Local []string

	// Task is the place of this process among the Tasks of one step of the manager. Each of them
	// has got the same command line. Tasks is 0 outside of a step.
	Task, Tasks uint32
}

// ErrNoList is wrapped by the error for a job whose hosts cannot be told: its manager is seen, and
// the list or file with the hosts is not there.
var ErrNoList = errors.New("the hosts of the job are not told")

// hint ends the messages about what a manager says.
const hint = "hint: ibrun --no-allocation --hosts LIST ... ignores the manager's job"

// allocator is one way in which hosts are given to a process.
type allocator struct {
	word, name string   // of -rmk, and for the user
	signs      []string // variables of which one at least is set in its jobs
	read       func(*allocator, Process) (*Allocation, error)
}

// allocators are in the order in which they count. The host files of other launchers, which users
// set themselves, are behind the managers.
var allocators = []allocator{
	{"slurm", "Slurm", slurmSigns, readSlurm},
	{"cobalt", "Cobalt", []string{"COBALT_NODEFILE", "COBALT_JOBID"}, lines("COBALT_NODEFILE", "COBALT_JOBID")},
	{"pbs", "PBS", []string{"PBS_NODEFILE", "PBS_JOBID"}, readPBS},
	{"lsf", "LSF", lsfSigns, readLSF},
	{"sge", "Grid Engine", []string{"PE_HOSTFILE", "NSLOTS"}, readGridEngine},
	{"ll", "LoadLeveler", []string{"LOADL_HOSTFILE"}, lines("LOADL_HOSTFILE", "LOADL_STEP_ID")},
	{"oar", "OAR", oarFiles, readOAR},
	{"flux", "Flux", []string{"FLUX_URI"}, readFlux},
	{"pals", "PALS", []string{"PALS_APID"}, withoutList("PALS_APID")},
	{"", "hydra", []string{"HYDRA_HOST_FILE"}, hostFile("HYDRA_HOST_FILE")},
	{"", "Intel MPI", []string{"I_MPI_HYDRA_HOST_FILE"}, hostFile("I_MPI_HYDRA_HOST_FILE")},
	{"", "Open MPI", []string{orteHosts}, hostFile(orteHosts)},
	{"", "Open MPI", []string{prteHosts}, hostFile(prteHosts)},
}

const (
	orteHosts = "OMPI_MCA_orte_default_hostfile"
	prteHosts = "PRTE_MCA_prte_default_hostfile"
)

// Read reads the allocation that a process runs in, and returns nil if there is none. only is the
// word of the one manager that counts; with "", the first counts whose hosts can be told. An error
// has the code exit.Usage.
func Read(p Process, only string) (*Allocation, error) {
	var hidden error
	for i := range allocators {
		m := &allocators[i]
		if sign, _ := p.first(m.signs...); sign == "" || only != "" && m.word != only {
			continue
		}
		a, err := m.read(m, p)
		switch {
		case errors.Is(err, ErrNoList):
			if hidden == nil {
				hidden = err
			}
		case err != nil:
			return nil, err
		case a != nil:
			a.Manager = m.name
			if len(a.Starter) > 0 {
				a.Launcher = m.word
			}
			return a, a.verify()
		}
	}
	return nil, hidden
}

// verify bounds the sum of all slots.
func (a *Allocation) verify() error {
	hosts, slots := count(a.Hosts), uint64(0)
	for _, h := range a.Hosts {
		slots += uint64(h.Count) * uint64(h.Slots)
	}
	if hosts > job.MaxNodes || slots > job.MaxRanks {
		return exit.Usagef("%s: %d hosts with %d slots, at most %d and %d are possible; %s", a.Source, hosts, slots,
			job.MaxNodes, job.MaxRanks, hint)
	}
	return nil
}

// count is the number of hosts.
func count(all []hostlist.Entry) (n uint64) {
	for _, h := range all {
		n += uint64(h.Count)
	}
	return n
}

func (p Process) get(name string) string {
	value, _ := job.LookupVariable(p.Env, name)
	return value
}

// first is the first of some variables that is set, and its value.
func (p Process) first(names ...string) (name, value string) {
	for _, n := range names {
		if v := p.get(n); v != "" {
			return n, v
		}
	}
	return "", ""
}

// agrees returns an error unless the value of the environment variable is the number have. The error says that have was
// read from source. A value above most is invalid. If the variable is not set or its name is empty, agrees returns nil.
func (p Process) agrees(variable string, most uint64, source string, have uint64) error {
	v := p.get(variable)
	if variable == "" || v == "" {
		return nil
	}
	n, err := number(v, most)
	if err == nil && uint64(n) != have {
		err = fmt.Errorf("%s has %d", source, have)
	}
	if err != nil {
		return bad(variable, v, err)
	}
	return nil
}

// taskOf sets a.Tasks and a.Task from the environment variables with the names in tasks and task. A.Tasks is the number
// of tasks of the job step, and a.Task is the index of this process among them, from 0. taskOf ignores a variable that
// is not set. Errors use the word in step for the job step.
func (a *Allocation) taskOf(p Process, step, tasks, task string) (err error) {
	if v := p.get(tasks); v != "" {
		if a.Tasks, err = number(v, job.MaxRanks); err != nil {
			return bad(tasks, v, err)
		}
	}
	if v := p.get(task); v != "" && a.Tasks > 0 {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil || n >= uint64(a.Tasks) {
			return bad(task, v, fmt.Errorf("not a task of a %s of %d", step, a.Tasks))
		}
		a.Task = uint32(n)
	}
	return nil
}

// bad is the error for a variable whose value cannot be right.
func bad(name, value string, why error) error {
	return exit.Usagef("%s=%s: %v; %s", name, plain.Text(clip(value)), why, hint)
}

// none is the error for a job whose hosts are not told.
func none(m *allocator, format string, args ...any) error {
	return exit.Usagef("%s: %s: %w; hint: name the hosts with --hosts LIST, or write --hosts localhost for this "+
		"machine alone", m.name, fmt.Sprintf(format, args...), ErrNoList)
}

// withoutList reads managers that set no list of hosts.
func withoutList(sign string) func(*allocator, Process) (*Allocation, error) {
	return func(m *allocator, _ Process) (*Allocation, error) { return nil, none(m, "%s is set", sign) }
}

// file reads the file that a variable names.
func (p Process) file(m *allocator, variable string) (name string, content []byte, err error) {
	name = p.get(variable)
	if name == "-" {
		return name, nil, bad(variable, name, errors.New("not a file"))
	}
	content, err = p.Read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return name, nil, none(m, "%s=%s is not there", variable, plain.Text(clip(name)))
	case err != nil:
		return name, nil, bad(variable, name, exit.Cause(err))
	case len(content) > hostlist.MaxFile:
		return name, nil, bad(variable, name, fmt.Errorf("more than %d MiB", hostlist.MaxFile>>20))
	}
	return name, content, nil
}

// clip shortens what a message quotes.
func clip(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	return text[:maxQuoted] + "..."
}

// maxQuoted is how much of a value a message quotes, in bytes.
const maxQuoted = 80
