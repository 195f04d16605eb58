package alloc

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"ibrun/internal/cpuset"
	"ibrun/internal/exit"
	"ibrun/internal/hostlist"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// resourceSet is what Flux has given to a job or an instance, version 1 of its format R.
type resourceSet struct {
	Version   int
	Execution struct {
		Lite []struct {
			Rank     string
			Children struct{ Core string }
		} `json:"R_lite"`
		NodeList   []string
		Expiration float64 // seconds since 1970; 0: never
	}
}

// readFlux reads the job that this process is a task of, or else the instance that it runs in. Flux
// tells neither in variables or files, so this is the only manager whose command is asked.
func readFlux(m *allocator, p Process) (*Allocation, error) {
	a := &Allocation{ID: p.get("FLUX_JOB_ID"), Confines: true}
	question := []string{"flux", "kvs", "get", "resource.R"}
	if a.ID != "" {
		if strings.HasPrefix(a.ID, "-") {
			return nil, bad("FLUX_JOB_ID", a.ID, errors.New("not the number of a job"))
		}
		question = []string{"flux", "job", "info", a.ID, "R"}
		if p.get("FLUX_TASK_RANK") != "" {
			if err := a.taskOf(p, "job", "FLUX_JOB_SIZE", "FLUX_TASK_RANK"); err != nil {
				return nil, err
			}
		}
	}
	a.Source = strings.Join(question, " ")
	answer, err := p.Ask(question...)
	if err != nil {
		return nil, none(m, "FLUX_URI is set, and %s failed: %v", plain.Text(clip(a.Source)), err)
	}
	if err := a.fluxHosts(answer); err != nil {
		return nil, exit.Usagef("FLUX_URI=%s: the answer of %s: %v; %s", plain.Text(clip(p.get("FLUX_URI"))),
			plain.Text(clip(a.Source)), err, hint)
	}
	a.Starter = []string{"flux", "exec", "-q", "--setopt", "stdout_LINE_BUFFER=false", "-r", job.StarterNumber}
	return a, nil
}

// fluxHosts reads hosts, and as slots the cores of each.
func (a *Allocation) fluxHosts(answer []byte) error {
	var r resourceSet
	if err := json.Unmarshal(answer, &r); err != nil {
		return errors.New("not a resource set in JSON")
	}
	if r.Version != 1 {
		return fmt.Errorf("version %d of the format, only 1 is known", r.Version)
	}
	entries, err := hostlist.Names(strings.Join(r.Execution.NodeList, ","))
	if err != nil {
		return err
	}
	hosts := count(entries)
	of := map[int]uint32{} // number of cores by broker rank, which is also the index of the host
	for _, l := range r.Execution.Lite {
		ranks, err := idSet(l.Rank)
		if err != nil {
			return err
		}
		cores, err := idSet(l.Children.Core)
		if err != nil {
			return err
		}
		if uint64(len(of)+ranks.Len()) > hosts {
			return fmt.Errorf("%d brokers or more, and %d hosts", len(of)+ranks.Len(), hosts)
		}
		if cores.Len() > job.MaxRanksOnNode {
			return fmt.Errorf("%d cores of a host, at most %d are possible", cores.Len(), job.MaxRanksOnNode)
		}
		for rank := range ranks.All() {
			if of[rank] > 0 {
				return fmt.Errorf("broker %d twice", rank)
			}
			of[rank] = uint32(cores.Len())
		}
	}
	if len(of) == 0 {
		return errors.New("no cores")
	}
	brokers := slices.Sorted(maps.Keys(of))
	var each []repeated
	for _, b := range brokers {
		if last := len(each) - 1; last >= 0 && each[last].value == of[b] {
			each[last].times++
		} else {
			each = append(each, repeated{of[b], 1})
		}
	}
	if a.Hosts, err = spread(entries, each); err == nil {
		a.Numbers = numbered(a.Hosts, brokers)
	}
	if e := r.Execution.Expiration; err == nil && e > 0 && e <= math.MaxUint32 {
		a.End = time.Unix(int64(e), 0).UTC()
	}
	return err
}

// numbered are hosts with the numbers of their brokers, which rise: a stretch for those in a row.
func numbered(all []hostlist.Entry, brokers []int) (list []job.NumberedHosts) {
	for _, h := range all {
		for at := uint32(0); at < h.Count; {
			n := uint32(1)
			for at+n < h.Count && brokers[n] == brokers[0]+int(n) {
				n++
			}
			run := job.Run{Prefix: h.Prefix, Suffix: h.Suffix, Width: uint8(h.Width), Lo: h.Lo + uint64(at), Count: n}
			list = append(list, job.NumberedHosts{Hosts: run.String(), First: uint32(brokers[0]), Step: 1})
			at, brokers = at+n, brokers[n:]
		}
	}
	return list
}

// idSet reads numbers as Flux writes them, with or without brackets. There is at least one.
func idSet(text string) (cpuset.Set, error) {
	set, err := cpuset.ParseList(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil || set.Len() == 0 {
		return set, fmt.Errorf("%q is not a set of numbers", clip(text))
	}
	return set, nil
}
