package alloc

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"ibrun/internal/hostlist"
	"ibrun/internal/job"
)

// lines reads managers whose file names a host on each line, once for each rank that it is for. The
// lines of a host need not be together.
func lines(variable, id string) func(*allocator, Process) (*Allocation, error) {
	return func(m *allocator, p Process) (*Allocation, error) {
		if p.get(variable) == "" {
			return nil, none(m, "%s is set, without %s", id, variable)
		}
		hosts, err := p.lines(m, variable)
		return &Allocation{ID: p.get(id), Hosts: hosts, Source: variable, Confines: true}, err
	}
}

// readPBS reads a job of PBS or Torque. Nothing that PBS starts has standard input, so its agents
// come by ssh, and join the job by a command of PBS.
func readPBS(m *allocator, p Process) (*Allocation, error) {
	a, err := lines("PBS_NODEFILE", "PBS_JOBID")(m, p)
	if err != nil || !isPBSJob(a.ID) {
		return a, err
	}
	a.Starter = []string{"pbs_attach", "-j", a.ID, "-p"}
	if dir := p.get("PBS_EXEC"); job.ShellSafe(dir) {
		a.Starter[0] = dir + "/bin/pbs_attach"
	}
	return a, nil
}

// isPBSJob reports whether a job's name can stand in double quotes in any shell: 12[3].server is
// one of an array.
func isPBSJob(id string) bool {
	return job.ShellSafe(strings.NewReplacer("[", "", "]", "").Replace(id))
}

// lines reads the file whose path is the value of the environment variable. Each line contains the name of a host and
// adds one slot to the host.
func (p Process) lines(m *allocator, variable string) ([]hostlist.Entry, error) {
	return p.eachLine(m, variable, func(words []string) (slots uint32, err error) {
		if len(words) != 1 {
			err = fmt.Errorf("%d words: a line has the name of a host", len(words))
		}
		return 1, err
	})
}

// eachLine reads the file whose path is the value of the environment variable, and returns the hosts in the file with
// their slots. The first word of a line is the name of a host. eachLine calls the function line with all words of the
// line and adds the returned number of slots to the host. An error names the variable, the file and the line. If the
// file contains no host, eachLine returns an error.
func (p Process) eachLine(m *allocator, variable string, line func(words []string) (slots uint32, err error)) (
	[]hostlist.Entry, error,
) {
	name, content, err := p.file(m, variable)
	if err != nil {
		return nil, err
	}
	var t tally
	n := 0
	for text := range bytes.Lines(content) {
		n++
		words := strings.Fields(string(text))
		if len(words) == 0 {
			continue
		}
		slots, err := line(words)
		if err == nil {
			err = t.add(words[0], slots)
		}
		if err != nil {
			return nil, bad(variable, name, fmt.Errorf("line %d: %w", n, err))
		}
	}
	if len(t.hosts) == 0 {
		return nil, bad(variable, name, errors.New("no host in this file"))
	}
	return t.hosts, nil
}

// hostFile reads the host file of another launcher. It is in the user's format, and names where
// jobs may run, not what a manager has given.
func hostFile(variable string) func(*allocator, Process) (*Allocation, error) {
	return func(m *allocator, p Process) (*Allocation, error) {
		name, content, err := p.file(m, variable)
		if err != nil {
			return nil, err
		}
		entries, err := hostlist.File(name, content)
		if err != nil {
			return nil, bad(variable, name, err)
		}
		return &Allocation{Hosts: defaultSlots(entries), Source: variable}, nil
	}
}

// oarFiles are the names under which OAR tells one and the same file.
var oarFiles = []string{"OAR_NODEFILE", "OAR_NODE_FILE", "OAR_FILE_NODES"}

// readOAR reads a job of OAR: a line for each core.
func readOAR(m *allocator, p Process) (*Allocation, error) {
	variable, _ := p.first(oarFiles...)
	_, id := p.first("OAR_JOB_ID", "OAR_JOBID")
	hosts, err := p.lines(m, variable)
	return &Allocation{ID: id, Hosts: hosts, Source: variable, Confines: true}, err
}
