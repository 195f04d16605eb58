package alloc

import (
	"cmp"
	"errors"
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
		slots := uint64(0)
		for _, h := range a.Hosts {
			slots += uint64(h.Slots)
		}
		return a, cmp.Or(p.agrees("NSLOTS", job.MaxRanks, file, slots),
			p.agrees("NHOSTS", job.MaxRanks, file, uint64(len(a.Hosts))))
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
	a.Hosts = []hostlist.Entry{{Prefix: p.Host, Count: 1, Slots: n}}
	return a, nil
}

// queues reads a line for each queue instance: host, slots, queue, and more that is not needed. A
// host may have several queues.
func (p Process) queues(m *allocator, file string) ([]hostlist.Entry, error) {
	return p.eachLine(m, file, func(words []string) (slots uint32, err error) {
		if len(words) < 2 {
			return 0, errors.New("no number of slots behind the host")
		}
		return number(words[1], job.MaxRanksOnNode)
	})
}
