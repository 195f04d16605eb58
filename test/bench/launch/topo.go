package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"

	"ibrun/internal/cpuset"
	"ibrun/internal/proc"
	"ibrun/test/bench/figure"
	"ibrun/topo"
	"ibrun/topo/topotest"
)

// Bounds of docs/placement.md.
const (
	maxRead      = 20   // ms that reading the topology of 256 CPUs may take
	maxAllocated = 4    // MiB that reading this topology may allocate
	maxShown     = 0.25 // the time of ibrun --display topo, divided by that of lstopo
	maxBind      = 50   // us that binding adds to a start
)

// Topo measures the cost of placement. It measures how long topo.Read, `ibrun --display topo` and lstopo take to read
// the topology of a simulated node with 256 CPUs. Then it measures how much longer the start of a process takes with
// binding.
func Topo(args []string) error {
	var launcher string
	if err := figure.Parse(args, &launcher); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-topo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	machine := topotest.Must("pack:2 numa:4 l3:16 core:64 pu:2 " +
		"hca:mlx5_0,numa=1,lid=1 hca:mlx5_1,numa=6,lid=2 link:eth0,numa=0")
	if err := os.CopyFS(dir, machine.Files()); err != nil {
		return err
	}
	fmt.Println(figure.Machine())
	bounds := figure.Bounds{To: os.Stdout}
	return errors.Join(reading(launcher, dir, &bounds), binding(&bounds), bounds.Err())
}

func reading(launcher, dir string, bounds *figure.Bounds) error {
	const rounds = 41
	allocated := uint64(0)
	own := &figure.Way{Name: "topo.Read", Do: func() (float64, error) {
		var before, after runtime.MemStats
		var m *topo.Machine
		runtime.ReadMemStats(&before)
		took, _ := figure.Time(func() error { m = topo.Read(os.DirFS(dir)); return nil })
		runtime.ReadMemStats(&after)
		allocated = max(allocated, after.TotalAlloc-before.TotalAlloc)
		if m.Online.Len() != 256 || len(m.Notes) > 0 {
			return 0, fmt.Errorf("%d CPUs were read, want 256: %q", m.Online.Len(), m.Notes)
		}
		return figure.Milliseconds(took), nil
	}}
	printing := func(name string, argv ...string) *figure.Way {
		return figure.Timed(name, func() error {
			r, err := figure.Run(patience, exec.Command(argv[0], argv[1:]...))
			if err == nil && len(r.Out) == 0 {
				err = errors.New("nothing was printed")
			}
			return err
		})
	}
	shown := printing("ibrun --display topo --json", launcher, "--display", "topo", "--json", "--topo-input", dir)
	theirs := printing("lstopo-no-graphics --of xml", "lstopo-no-graphics", "--input", dir, "--of", "xml")
	if err := figure.Measure(0, rounds, own, shown, theirs); err != nil {
		return err
	}
	fmt.Printf("256 CPUs, medians of %d rounds\n", rounds)
	for _, w := range []*figure.Way{own, shown, theirs} {
		fmt.Printf("  %-30s %8.2f ms\n", w.Name, w.Median())
	}
	bounds.AtMost("256 CPUs are read, ms", own.Median(), maxRead)
	bounds.AtMost("256 CPUs are read, MiB allocated", float64(allocated)/(1<<20), maxAllocated)
	bounds.AtMost("256 CPUs are shown, beside lstopo", shown.Over(theirs), maxShown)
	return nil
}

// binding compares the start of a process that is not bound with one that is bound to a CPU. It alternates after
// every inARow starts.
func binding(bounds *figure.Bounds) error {
	const starts = 640
	cpus := slices.Collect(topo.Read(proc.Here()).Allowed.All())
	var took [2][]float64
	for n := range 2 * starts {
		i, thread := n/inARow%2, proc.Thread{}
		if i == 1 { // consecutive processes are bound to different CPUs
			thread = proc.Thread{CPUs: cpuset.Of(cpus[n%len(cpus)]), Mems: cpuset.Of(0)}
		}
		var p *proc.Process
		d, err := figure.Time(func() (err error) {
			p, err = proc.Start(proc.Cmd{Path: "/bin/true", Argv: []string{"true"}, Thread: thread})
			return err
		})
		if err != nil {
			return err
		}
		took[i] = append(took[i], figure.Microseconds(d))
		<-p.Done()
	}
	unbound, bound := figure.Median(took[0]), figure.Median(took[1])
	fmt.Printf("a start, unbound %.0f us, bound %.0f us\n", unbound, bound)
	bounds.AtMost("binding adds to a start, us", bound-unbound, maxBind)
	return nil
}
