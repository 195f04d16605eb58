package alloc

import (
	"errors"
	"fmt"
	"strings"

	"ibrun/internal/hostlist"
	"ibrun/internal/job"
)

// readGridEngine reads a job of Grid Engine. One outside of a parallel environment has no file, and
// one host.
func readGridEngine(m *allocator, p Process) (*Allocation, error) {
	a := &Allocation{ID: p.get("JOB_ID"), Confines: true}
	if task := p.get("SGE_TASK_ID"); task != "" && task != "undefined" {
		a.ID += "." + task
	}
	if queue := p.get("QUEUE"); queue != "" && strings.HasSuffix(p.get("TMP"), "."+queue) {
		a.Local = []string{"TMP"} // the folder that Grid Engine has made for the job, like TMPDIR
	}
	const file = "PE_HOSTFILE"
	if p.get(file) != "" {
		a.Source, a.Starter = file, []string{"qrsh", "-inherit", "-V", job.StarterHost}
		if root, arch := p.get("SGE_ROOT"), p.get("ARC"); root != "" && arch != "" {
			a.Starter[0] = root + "/bin/" + arch + "/qrsh"
		}
		var err error
		if a.Hosts, err = p.queues(m, file); err != nil {
			return nil, err
		}
		return a, sumOfSlots(p, a.Hosts)
	}
	slots := p.get("NSLOTS")
	if slots == "" || p.get("SGE_ROOT") == "" || p.get("JOB_ID") == "" {
		return nil, nil // NSLOTS alone may be anybody's
	}
	n, err := number(slots, job.MaxRanksOnNode)
	if err != nil {
		return nil, bad("NSLOTS", slots, err)
	}
	a.Source = "NSLOTS"
	a.Hosts = []Hosts{{Entry: hostlist.Entry{Prefix: p.Host, Count: 1, Slots: n}}}
	return a, nil
}

// queues reads a line for each queue instance: host, slots, queue, and more that is not needed. A
// host may have several queues.
func (p Process) queues(m *allocator, file string) ([]Hosts, error) {
	var t tally
	err := p.eachLine(m, file, func(words []string) error {
		if len(words) < 2 {
			return errors.New("no number of slots behind the host")
		}
		slots, err := number(words[1], job.MaxRanksOnNode)
		if err != nil {
			return err
		}
		return t.add(words[0], slots, 0)
	})
	return t.hosts, err
}

// sumOfSlots compares the file with the numbers that Grid Engine sets beside it.
func sumOfSlots(p Process, all []Hosts) error {
	slots := uint64(0)
	for _, h := range all {
		slots += uint64(h.Slots)
	}
	for name, have := range map[string]uint64{"NSLOTS": slots, "NHOSTS": uint64(len(all))} {
		v := p.get(name)
		if v == "" {
			continue
		}
		n, err := number(v, job.MaxRanks)
		if err == nil && uint64(n) != have {
			err = fmt.Errorf("PE_HOSTFILE has %d", have)
		}
		if err != nil {
			return bad(name, v, err)
		}
	}
	return nil
}
