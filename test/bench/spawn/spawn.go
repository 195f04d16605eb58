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
	lone        = 4         // starts before them
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

// client speaks as the C program does: for each number of starts a line with the nanoseconds until
// all run, until all have ended, and of CPU time since the line before, its own and the programs'.
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
		running, err := row(program, count)
		all := time.Since(began)
		if err != nil {
			return err
		}
		fmt.Println(running.Nanoseconds(), all.Nanoseconds(),
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

// row starts some processes as an agent starts ranks, and waits for all. It returns the time until
// all ran, without that which the opening of their descriptors took.
func row(program string, count int) (running time.Duration, err error) {
	var begun []*proc.Birth
	var all []*proc.Process
	var opened []*os.File
	defer func() {
		for _, f := range opened {
			f.Close()
		}
	}()
	proc.Row(func(begin proc.Beginner) {
		began := time.Now()
		for range count {
			opening := time.Now()
			theirs, ours, fail := descriptors()
			opened = append(append(opened, theirs...), ours...)
			if err = fail; err != nil {
				return
			}
			began = began.Add(time.Since(opening))
			begun = append(begun, begin(proc.Cmd{Path: program, Argv: []string{program}, Env: os.Environ(),
				Files: theirs, Setpgid: true}))
		}
		for _, b := range begun {
			p, fail := b.Result()
			if err = errors.Join(err, fail); fail == nil {
				all = append(all, p)
			}
		}
		running = time.Since(began)
	})
	for _, p := range all {
		<-p.Done()
	}
	return running, err
}

// descriptors opens those of a rank, and our sides of them.
func descriptors() (theirs, ours []*os.File, err error) {
	null, err := os.Open(os.DevNull)
	theirs = append(theirs, null)
	for i := 0; i < 2 && err == nil; i++ {
		var r, w *os.File
		r, w, err = proc.PipeFrom()
		theirs, ours = append(theirs, w), append(ours, r)
	}
	if err != nil {
		return theirs, ours, err
	}
	a, b, err := spawn.SocketPair()
	if err != nil {
		return theirs, ours, err
	}
	return append(theirs, os.NewFile(uintptr(b), "rank's control channel")),
		append(ours, os.NewFile(uintptr(a), "control channel")), nil
}

// way is one of those that are compared. What is measured in a row is for each start.
type way struct {
	name string
	*worker.Worker
	lone    []time.Duration // of a start that is alone, until it runs
	running []time.Duration // of a row, until all run
	all     []time.Duration // until all have ended
	own     []time.Duration // CPU time of the process itself
	cpu     []time.Duration // that of the programs besides
}

// turn is a few lone starts and a row.
func (w *way) turn() error {
	for range lone {
		list, err := w.start(1)
		if err != nil {
			return err
		}
		w.lone = append(w.lone, list[0])
	}
	list, err := w.start(inARow)
	if err != nil {
		return err
	}
	w.running, w.all = append(w.running, list[0]), append(w.all, list[1])
	w.own, w.cpu = append(w.own, list[2]), append(w.cpu, list[2]+list[3])
	return nil
}

// start has some started, and returns the times that it was told, for each start.
func (w *way) start(count int) (list []time.Duration, err error) {
	answer, err := w.Ask(strconv.Itoa(count))
	if err != nil {
		return nil, err
	}
	for word := range strings.FieldsSeq(answer) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, err
		}
		list = append(list, time.Duration(n)/time.Duration(count))
	}
	if len(list) != 4 {
		return nil, fmt.Errorf("%s said %q", w.name, answer)
	}
	return list, nil
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
	fmt.Printf("%s, medians of %d turns of %d lone starts and %d in a row\n", name, rounds, lone, inARow)
	for _, w := range ways {
		if _, err := w.Close(); err != nil {
			return err
		}
		fmt.Printf("  %-18s %9v a lone start; in a row %9v a start, %9v until all have ended, %9v CPU, %9v its own\n",
			w.name, short(figure.Median(w.lone)), short(figure.Median(w.running)), short(figure.Median(w.all)),
			short(figure.Median(w.cpu)), short(figure.Median(w.own)))
	}
	for _, w := range ways[1:] {
		against := func(of func(*way) []time.Duration) float64 {
			return float64(figure.Median(of(w))) / float64(figure.Median(of(ways[0])))
		}
		what := name + ", " + w.name + " / posix_spawn: "
		bounds.AtMost(what+"a lone start", against(func(w *way) []time.Duration { return w.lone }), mostOfPosix)
		bounds.AtMost(what+"a start in a row", against(func(w *way) []time.Duration { return w.running }), mostOfPosix)
		bounds.AtMost(what+"until all have ended", against(func(w *way) []time.Duration { return w.all }), mostOfPosix)
		bounds.AtMost(what+"CPU", against(func(w *way) []time.Duration { return w.cpu }), mostOfPosix)
	}
	return nil
}

func short(d time.Duration) time.Duration { return d.Round(100 * time.Nanosecond) }
