package alloc

import (
	"errors"
	"fmt"
	"strings"

	"ibrun/internal/cpuset"
	"ibrun/internal/hostlist"
	"ibrun/internal/job"
)

var lsfSigns = []string{"LSB_JOBID", "LSB_AFFINITY_HOSTFILE", "LSB_DJOB_HOSTFILE", "LSB_MCPU_HOSTS", "LSB_HOSTS"}

// readLSF reads a job of LSF. Of its lists the one counts that says most: CPUs for each task, then
// the file with a line for each slot, then the variables.
func readLSF(m *allocator, p Process) (*Allocation, error) {
	a := &Allocation{ID: p.get("LSB_JOBID"), Confines: true, Starter: []string{"blaunch", job.StarterHost}}
	if dir := p.get("LSF_BINDIR"); dir != "" {
		a.Starter[0] = dir + "/blaunch"
	}
	name, value := p.first("LSB_AFFINITY_HOSTFILE", "LSB_DJOB_HOSTFILE", "LSB_MCPU_HOSTS", "LSB_HOSTS")
	a.Source = name
	var err error
	switch name {
	case "":
		return nil, none(m, "LSB_JOBID is set, without LSB_DJOB_HOSTFILE")
	case "LSB_AFFINITY_HOSTFILE":
		a.Hosts, err = p.affinity(m, name)
	case "LSB_DJOB_HOSTFILE":
		a.Hosts, err = p.lines(m, name)
	default:
		if a.Hosts, err = lsfHosts(strings.Fields(value), name == "LSB_MCPU_HOSTS"); err != nil {
			err = bad(name, value, err)
		}
	}
	return a, err
}

// lsfHosts reads hosts, once for each slot or with a number behind each.
func lsfHosts(words []string, counted bool) ([]hostlist.Entry, error) {
	if len(words) == 0 {
		return nil, errors.New("no host")
	}
	if counted && len(words)%2 != 0 {
		return nil, errors.New("not pairs of a host and a number")
	}
	var t tally
	for i := 0; i < len(words); i++ {
		name, slots := words[i], uint32(1)
		if counted {
			i++
			var err error
			if slots, err = number(words[i], job.MaxRanksOnNode); err != nil {
				return nil, err
			}
		}
		if err := t.add(name, slots); err != nil {
			return nil, err
		}
	}
	return t.hosts, nil
}

// affinity reads the LSF affinity file whose path is the value of the environment variable. The file has one line for
// each task, with the host, the CPUs and the memory nodes of the task. Each line adds one slot to the host. The CPUs
// are checked but not used, because each agent reads the allowed CPUs of its node.
func (p Process) affinity(m *allocator, variable string) ([]hostlist.Entry, error) {
	return p.eachLine(m, variable, func(words []string) (slots uint32, err error) {
		if len(words) > 1 {
			if _, err := cpuset.ParseList(words[1]); err != nil {
				return 0, fmt.Errorf("%q is not a list of CPUs", clip(words[1]))
			}
		}
		return 1, nil
	})
}
