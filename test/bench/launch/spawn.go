package launch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/spawn"
	"ibrun/internal/proc"
	"ibrun/test/bench/figure"
)

const (
	maxOfPosix = 1.15
	inARow     = 16 // processes that are started one after the other, as an agent starts the ranks of its node
	lone       = 4  // processes that are started singly in each round, before those in a row
)

// starter represents a separate process that starts other processes: this program with the subcommand :starts, or
// c/posix.c. It reads the number of processes to start, and prints four times in nanoseconds: until all of them run,
// until all have ended, its own CPU time, and the CPU time of the processes that it started. It is a separate process
// so that its CPU time can be measured.
type starter struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	// Times in microseconds per started process: until a single process runs (lone), until all processes in a row
	// run (running) and have ended (ended), the CPU time of the starter (own), and that of the starter and its
	// processes (cpu).
	lone, running, ended, own, cpu []float64
}

func newStarter(name string, argv ...string) (s *starter, err error) {
	s = &starter{name: name, cmd: exec.Command(argv[0], argv[1:]...)}
	s.cmd.Stderr = os.Stderr
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	return s, s.cmd.Start()
}

// start makes the process start some programs, and returns the four times, divided by their number.
func (s *starter) start(count int) (times [4]float64, err error) {
	if _, err = fmt.Fprintln(s.in, count); err == nil {
		_, err = fmt.Fscanln(s.out, &times[0], &times[1], &times[2], &times[3])
	}
	for i := range times {
		times[i] /= float64(count) * float64(time.Microsecond)
	}
	return times, err
}

// turn measures one round: lone single starts, and then inARow starts one after the other. It returns the time until
// those in a row run, in microseconds per process.
func (s *starter) turn() (float64, error) {
	for range lone {
		times, err := s.start(1)
		if err != nil {
			return 0, err
		}
		s.lone = append(s.lone, times[0])
	}
	times, err := s.start(inARow)
	s.running, s.ended = append(s.running, times[0]), append(s.ended, times[1])
	s.own, s.cpu = append(s.own, times[2]), append(s.cpu, times[2]+times[3])
	return times[0], err
}

// Spawn compares the start of a rank with posix_spawn of the same program with the same descriptors, from a
// small C program. It fails if a start takes more than maxOfPosix times the time or CPU time of posix_spawn.
func Spawn(args []string) error {
	var posix, program string
	var rounds int
	if err := figure.Parse(args, &rounds, &posix, &program); err != nil {
		return err
	}
	var starters []*starter
	var ways []*figure.Way
	for _, argv := range [][]string{{"posix_spawn", posix, program}, {"ibrun", self(), ":starts", "1", program},
		{"ibrun with 256 MiB", self(), ":starts", "256", program}} {
		s, err := newStarter(argv[0], argv[1:]...)
		if err != nil {
			return err
		}
		defer s.cmd.Wait()
		defer s.in.Close()
		starters, ways = append(starters, s), append(ways, &figure.Way{Name: s.name, Do: s.turn})
	}
	if err := figure.Measure(0, rounds, ways...); err != nil {
		return err
	}
	name := filepath.Base(program)
	fmt.Println(figure.Machine())
	fmt.Printf("%s, medians of %d turns of %d lone starts and %d in a row\n", name, rounds, lone, inARow)
	bounds := figure.Bounds{To: os.Stdout}
	first := starters[0]
	for _, s := range starters {
		fmt.Printf("  %-18s %8.1f us a lone start; in a row %8.1f us a start, %8.1f us until all have ended, "+
			"%8.1f us CPU, %8.1f us its own\n", s.name, figure.Median(s.lone), figure.Median(s.running),
			figure.Median(s.ended), figure.Median(s.cpu), figure.Median(s.own))
		if s == first {
			continue
		}
		for _, of := range []struct {
			what         string
			ours, theirs []float64
		}{{"a lone start", s.lone, first.lone}, {"a start in a row", s.running, first.running},
			{"until all have ended", s.ended, first.ended}, {"CPU", s.cpu, first.cpu}} {
			bounds.AtMost(name+", "+s.name+" / posix_spawn: "+of.what,
				figure.Median(of.ours)/figure.Median(of.theirs), maxOfPosix)
		}
	}
	return bounds.Err()
}

// Starts runs a starter that starts programs as an agent starts ranks, with MIB mebibytes of memory in use.
func Starts(args []string) error {
	var program string
	var mib int
	if err := figure.Parse(args, &mib, &program); err != nil {
		return err
	}
	runtime.GOMAXPROCS(1) // as in an agent
	weight := make([]byte, mib<<20)
	for i := 0; i < len(weight); i += os.Getpagesize() {
		weight[i] = 1
	}
	defer runtime.KeepAlive(weight)
	own, theirs := figure.CPU(unix.RUSAGE_SELF), figure.CPU(unix.RUSAGE_CHILDREN)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		count, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		began := time.Now()
		running, err := startRow(program, count)
		all := time.Since(began)
		if err != nil {
			return err
		}
		nowOwn, nowTheirs := figure.CPU(unix.RUSAGE_SELF), figure.CPU(unix.RUSAGE_CHILDREN)
		fmt.Println(int64(running), int64(all), int64(nowOwn-own), int64(nowTheirs-theirs))
		own, theirs = figure.CPU(unix.RUSAGE_SELF), figure.CPU(unix.RUSAGE_CHILDREN)
	}
	return nil
}

// startRow starts count processes one after the other and waits until all have ended. It returns the time until all
// of them were running, without the time for opening their descriptors.
func startRow(program string, count int) (running time.Duration, err error) {
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

// descriptors opens files as an agent does for a rank. theirs become the descriptors of the rank: /dev/null, two
// pipes and a socket. ours are the ends of the pipes and of the socket that the agent keeps.
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
