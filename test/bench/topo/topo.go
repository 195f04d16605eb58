// Package topo measures what placement costs: reading a node of 256 CPUs, in this process and
// beside lstopo as a process of its own, and what binding adds to the start of a rank. `make
// bench-topo` runs it.
//
// It fails if a bound of docs/placement.md is not kept, and refuses to know more of /sys than topo.
package topo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"ibrun/internal/cpuset"
	"ibrun/internal/proc"
	"ibrun/internal/pseudo"
	"ibrun/test/bench/figure"
	"ibrun/topo"
	"ibrun/topo/topotest"
)

const (
	mostTime   = 20   // ms to read 256 CPUs
	mostMemory = 4    // MiB allocated by that
	mostShown  = 0.25 // of the time of lstopo, by a process that prints them
	mostBind   = 50   // us of a start
	rounds     = 41
	starts     = 640
	inARow     = 16 // as the ranks of a node are
)

// Run is the subcommand.
func Run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: bench topo IBRUN")
	}
	return bench(args[0])
}

func bench(launcher string) error {
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
	return errors.Join(reading(launcher, dir), binding())
}

// reading compares within one run, in turns.
func reading(launcher, dir string) error {
	var own, shown, theirs []time.Duration
	bytes := uint64(0)
	err := figure.Turns(rounds, func() error {
		took, allocated, err := read(dir)
		own, bytes = append(own, took), max(bytes, allocated)
		return err
	}, func() error {
		return command(&shown, launcher, "--display", "topo", "--json", "--topo-input", dir)
	}, func() error {
		return command(&theirs, "lstopo-no-graphics", "--input", dir, "--of", "xml")
	})
	if err != nil {
		return err
	}
	fmt.Println(figure.Machine())
	fmt.Printf("256 CPUs, medians of %d rounds\n", rounds)
	fmt.Printf("  topo.Read                       %8v, %.2f MiB allocated\n", median(own), float64(bytes)/(1<<20))
	fmt.Printf("  ibrun --display topo --json     %8v\n", median(shown))
	fmt.Printf("  lstopo-no-graphics --of xml     %8v\n", median(theirs))
	bounds := figure.Bounds{To: os.Stdout}
	bounds.AtMost("256 CPUs are read, ms", figure.Milliseconds(median(own)), mostTime)
	bounds.AtMost("256 CPUs are read, MiB allocated", float64(bytes)/(1<<20), mostMemory)
	bounds.AtMost("256 CPUs are shown, beside lstopo", float64(median(shown))/float64(median(theirs)), mostShown)
	return bounds.Err()
}

// read reads the machine once in this process.
func read(dir string) (took time.Duration, allocated uint64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	m := topo.Read(os.DirFS(dir))
	took = time.Since(began)
	runtime.ReadMemStats(&after)
	if m.Online.Len() != 256 || len(m.Notes) > 0 {
		err = fmt.Errorf("%d CPUs were read, not 256: %q", m.Online.Len(), m.Notes)
	}
	return took, after.TotalAlloc - before.TotalAlloc, err
}

// command runs a program that prints the machine, and adds its time.
func command(to *[]time.Duration, argv ...string) error {
	var out []byte
	took, err := figure.Time(func() (err error) { out, err = exec.Command(argv[0], argv[1:]...).Output(); return err })
	if err != nil || len(out) == 0 {
		return fmt.Errorf("%v: %w", argv, err)
	}
	*to = append(*to, took)
	return nil
}

// binding compares starts with and without, in turns.
func binding() error {
	cpus := slices.Collect(topo.Read(pseudo.Here()).Allowed.All())
	var took [2][]time.Duration
	for n := range 2 * starts {
		i, thread := n/inARow%2, proc.Thread{}
		if i == 1 { // each rank has its own CPU
			thread = proc.Thread{CPUs: cpuset.Of(cpus[n%len(cpus)]), Mems: cpuset.Of(0)}
		}
		began := time.Now()
		p, err := proc.Start(proc.Cmd{Path: "/bin/true", Argv: []string{"true"}, Thread: thread})
		if err != nil {
			return err
		}
		took[i] = append(took[i], time.Since(began))
		<-p.Done()
	}
	more := median(took[1]) - median(took[0])
	fmt.Printf("a start, unbound %v, bound %v\n", median(took[0]), median(took[1]))
	bounds := figure.Bounds{To: os.Stdout}
	bounds.AtMost("binding adds to a start, us", figure.Microseconds(more), mostBind)
	return bounds.Err()
}

func median(d []time.Duration) time.Duration { return figure.Median(d).Round(time.Microsecond) }
