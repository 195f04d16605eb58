// Package spawn holds what the start of a rank costs against posix_spawn of the same binary with
// the same descriptors from a small C program, in turns. `make bench-spawn` runs it:
//
//	bench spawn ROUNDS POSIX PROGRAM...
//
// It fails if a start costs more than 1.15 of posix_spawn's time or CPU time. It refuses to build
// the C programs.
package spawn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/spawn"
	"ibrun/internal/proc"
	"ibrun/test/bench/figure"
	"ibrun/test/bench/worker"
)

const (
	mostOfPosix = 1.15
	clientRole  = "client"
	heapRole    = "heap"    // the same, in a process with much memory
	heap        = 256 << 20 // bytes of it
	inARow      = 16        // starts, as the ranks of a node are
)

// Run is the subcommand.
func Run(args []string) error {
	switch {
	case len(args) == 2 && (args[0] == clientRole || args[0] == heapRole):
		return client(args[0] == heapRole, args[1])
	case len(args) > 2:
		return bench(args[0], args[1], args[2:])
	}
	return errors.New("usage: bench spawn ROUNDS POSIX PROGRAM [PROGRAM]")
}

// client speaks as the C program does: for each number of starts a line with the nanoseconds of
// each, of all until the last has ended, and of CPU time since the line before, its own and the
// programs'.
func client(large bool, program string) error {
	runtime.GOMAXPROCS(1) // as an agent
	if large {
		weight := make([]byte, heap)
		for i := 0; i < heap; i += os.Getpagesize() {
			weight[i] = 1
		}
		defer runtime.KeepAlive(weight)
	}
	own, theirs := used(unix.RUSAGE_SELF), used(unix.RUSAGE_CHILDREN)
	return worker.Serve(func(line string) error {
		count, err := strconv.Atoi(line)
		if err != nil {
			return err
		}
		began := time.Now()
		took, err := row(program, count)
		all := time.Since(began)
		if err != nil {
			return err
		}
		for _, t := range took {
			fmt.Printf("%d ", t.Nanoseconds())
		}
		fmt.Println(all.Nanoseconds(),
			(used(unix.RUSAGE_SELF) - own).Nanoseconds(), (used(unix.RUSAGE_CHILDREN) - theirs).Nanoseconds())
		own, theirs = used(unix.RUSAGE_SELF), used(unix.RUSAGE_CHILDREN)
		return nil
	})
}

// used is the CPU time of this process, or of its dead children.
func used(whose int) time.Duration {
	var r unix.Rusage
	_ = unix.Getrusage(whose, &r) // of these two it cannot fail
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// row starts some processes, and waits for all.
func row(program string, count int) (took []time.Duration, err error) {
	var all []*proc.Process
	proc.Row(func(start func(proc.Cmd) (*proc.Process, error)) {
		for len(all) < count && err == nil {
			var p *proc.Process
			var t time.Duration
			if p, t, err = one(program, start); err == nil {
				all, took = append(all, p), append(took, t)
			}
		}
	})
	for _, p := range all {
		<-p.Done()
	}
	return took, err
}

// one is one start with the descriptors of a rank; opening them is not counted.
func one(program string, start func(proc.Cmd) (*proc.Process, error)) (p *proc.Process, took time.Duration, err error) {
	var theirs, ours []*os.File
	defer func() {
		for _, f := range append(theirs, ours...) {
			f.Close()
		}
	}()
	null, err := os.Open(os.DevNull)
	theirs = append(theirs, null)
	for i := 0; i < 2 && err == nil; i++ {
		var r, w *os.File
		r, w, err = proc.PipeFrom()
		theirs, ours = append(theirs, w), append(ours, r)
	}
	if err != nil {
		return nil, 0, err
	}
	a, b, err := spawn.SocketPair()
	if err != nil {
		return nil, 0, err
	}
	theirs = append(theirs, os.NewFile(uintptr(b), "rank's control channel"))
	ours = append(ours, os.NewFile(uintptr(a), "control channel"))
	began := time.Now()
	p, err = start(proc.Cmd{Path: program, Argv: []string{program}, Env: os.Environ(), Files: theirs, Setpgid: true})
	return p, time.Since(began), err
}

// way is one of those that are compared.
type way struct {
	name string
	*worker.Worker
	took []time.Duration // of each start
	all  []time.Duration // of each turn, until all have ended
	own  []time.Duration // CPU time of the process itself, of each turn
	cpu  []time.Duration // that of the programs besides
}

// turn is a row of starts.
func (w *way) turn() error {
	answer, err := w.Ask(strconv.Itoa(inARow))
	if err != nil {
		return err
	}
	var list []time.Duration
	for word := range strings.FieldsSeq(answer) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return err
		}
		list = append(list, time.Duration(n))
	}
	if len(list) != inARow+3 {
		return fmt.Errorf("%s said %q", w.name, answer)
	}
	all, own, theirs := list[inARow], list[inARow+1], list[inARow+2]
	w.took, w.all = append(w.took, list[:inARow]...), append(w.all, all)
	w.own, w.cpu = append(w.own, own), append(w.cpu, own+theirs)
	return nil
}

func bench(times, posix string, programs []string) error {
	rounds, err := figure.Rounds(times)
	if err != nil {
		return err
	}
	fmt.Println(figure.Machine())
	bounds := figure.Bounds{To: os.Stdout}
	for _, p := range programs {
		if err := compare(rounds, posix, p, &bounds); err != nil {
			return err
		}
	}
	return bounds.Err()
}

func compare(rounds int, posix, program string, bounds *figure.Bounds) error {
	var ways []*way
	var turns []func() error
	for _, argv := range [][]string{
		{"posix_spawn", posix, program}, {"ibrun", worker.Self, "spawn", clientRole, program},
		{fmt.Sprintf("ibrun with %d MiB", heap>>20), worker.Self, "spawn", heapRole, program},
	} {
		process, err := worker.Start(argv[0], argv[1], argv[2:]...)
		if err != nil {
			return err
		}
		w := &way{name: argv[0], Worker: process}
		ways, turns = append(ways, w), append(turns, w.turn)
	}
	if err := figure.Turns(rounds, turns...); err != nil {
		return err
	}
	name := filepath.Base(program)
	fmt.Printf("%s, medians of %d starts, %d in a row in turns\n", name, rounds*inARow, inARow)
	for _, w := range ways {
		if _, err := w.Close(); err != nil {
			return err
		}
		fmt.Printf("  %-18s %10v a start, %10v until all have ended, %10v CPU, %10v of it its own\n", w.name,
			short(figure.Median(w.took)), short(figure.Median(w.all)/inARow),
			short(figure.Median(w.cpu)/inARow), short(figure.Median(w.own)/inARow))
	}
	for _, w := range ways[1:] {
		against := func(of func(*way) []time.Duration) float64 {
			return float64(figure.Median(of(w))) / float64(figure.Median(of(ways[0])))
		}
		what := name + ", " + w.name + " / posix_spawn: "
		bounds.AtMost(what+"a start", against(func(w *way) []time.Duration { return w.took }), mostOfPosix)
		bounds.AtMost(what+"until all have ended", against(func(w *way) []time.Duration { return w.all }), mostOfPosix)
		bounds.AtMost(what+"CPU", against(func(w *way) []time.Duration { return w.cpu }), mostOfPosix)
	}
	return nil
}

func short(d time.Duration) time.Duration { return d.Round(100 * time.Nanosecond) }
