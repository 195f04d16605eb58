// Package bind chooses the CPUs and the NUMA nodes of each rank of a node. It also chooses the HCA port and the network
// interface that are nearest to each rank, and the environment variables that name them for libraries. The package
// performs no I/O: its caller binds the processes. docs/placement.md has the rules.
package bind

import (
	"errors"
	"fmt"

	"ibrun/internal/cpuset"
	"ibrun/internal/job"
	"ibrun/internal/plain"
	"ibrun/topo"
)

// Place is where one rank runs. The zero value binds nothing.
type Place struct {
	CPUs cpuset.Set // empty: not bound
	Mems cpuset.Set // IDs of the NUMA nodes that its memory comes from; empty: as the kernel likes

	// Interleave says that pages come from Mems in turn, because the CPUs are
	// on several NUMA nodes. Otherwise Mems is at most one, and preferred.
	Interleave bool
}

// Places decides for the ranks of one node, from its first to its last.
//
// omp is OMP_NUM_THREADS of the job's environment, or 0: a rank gets that many
// cores if all can. An error is a demand that this node cannot meet; what was
// only hoped for ends unbound with a note. Neither names the host or a rank,
// so that nodes with the same problem say the same.
func Places(m *topo.Machine, want job.Binding, ranks, omp int) (places []Place, notes []string, err error) {
	sets := make([]cpuset.Set, max(ranks, 0))
	notes = limits(m, ranks)
	switch {
	case len(sets) == 0 || want.Bind == job.Unbound:
	case len(want.Slots) > 0:
		sets, err = slotted(m, want.Slots, ranks)
	case len(want.CPUs) > 0:
		sets, err = listed(m, want.CPUs, ranks)
	default:
		t := newTree(m)
		bound, cause := t.bind(want, ranks, omp)
		switch {
		case cause == nil:
			sets = t.numbered(bound, want.Rank)
		case !errors.Is(cause, errFull):
			err = cause
		case !narrow(m, ranks):
			notes = append(notes, t.crowded(want, ranks))
		}
	}
	if err != nil {
		return nil, nil, err
	}
	near := newMemory(m)
	for _, cpus := range sets {
		p := Place{CPUs: cpus}
		p.Mems, p.Interleave = near.of(cpus)
		places = append(places, p)
	}
	return places, notes, nil
}

// narrow reports whether something left several ranks one CPU of many.
func narrow(m *topo.Machine, ranks int) bool {
	return m.Allowed.Len() == 1 && ranks > 1 && m.Online.Len() > 1
}

// limits are notes on what holds all ranks back, however they are bound.
func limits(m *topo.Machine, ranks int) (notes []string) {
	if narrow(m, ranks) {
		notes = append(notes,
			fmt.Sprintf("this node allows only CPU %s to its %d ranks, as a job step of one task or taskset does: "+
				"ask for more (Slurm: -c N or --exclusive, and --cpu-bind=none where srun starts ibrun)", m.Allowed,
				ranks))
	}
	// Below half, ranks that use all that they are bound to stand still most of the time.
	if cpus := m.Allowed.Len(); m.Quota > 0 && 2*m.Quota < float64(cpus) {
		notes = append(notes, fmt.Sprintf("cpu.max of the cgroup leaves the time of %.3g CPUs to %d CPUs: "+
			"ranks that use more are stopped again and again; raise the quota or use fewer threads", m.Quota, cpus))
	}
	return notes
}

// crowded is the note on ranks that are not bound since they are too many.
func (t *tree) crowded(want job.Binding, ranks int) string {
	const unbound = "so that none is bound"
	switch {
	case ranks > t.cpus:
		return fmt.Sprintf("oversubscribed: %s on %s, %s", plain.Plural(ranks, "rank"),
			plain.Plural(t.cpus, "allowed CPU"), unbound)
	case want.PerObj > 0:
		return fmt.Sprintf("oversubscribed: %s on each %s, %s", plain.Plural(int(want.PerObj), "rank"), want.Map,
			unbound)
	}
	return fmt.Sprintf("oversubscribed: %s on %s, %s; --map-by hwthread gives each a CPU, --bind-to "+
		"core:overload-allowed lets them share cores",
		plain.Plural(ranks, "rank"), plain.Plural(len(t.cores), "allowed core"), unbound)
}
