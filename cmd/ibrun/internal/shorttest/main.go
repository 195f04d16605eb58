// Command shorttest runs jobs one after the other with one root in one process, and prints how many goroutines and open
// descriptors remain after the jobs:
//
//	shorttest JOBS ARGUMENTS
//
// JOBS is the number of jobs, and ARGUMENTS are the arguments of ibrun. shorttest prints one line before these jobs and
// one line after them. Each line contains the number of goroutines and the number of open descriptors. The nodes run
// shorttest as their agent in place of ibrun, because agents must be of the same build as the root.
package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"time"

	"ibrun/bootstrap/agent"
	"ibrun/bootstrap/reaper"
	"ibrun/bootstrap/remote"
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/cmd/ibrun/internal/plan"
	"ibrun/cmd/ibrun/internal/run"
)

func main() {
	switch os.Args[1] {
	case reaper.Role:
		os.Exit(reaper.Main(os.Args[2:]))
	case reaper.Sweep:
		os.Exit(reaper.SweepMain(os.Args[2:]))
	case reaper.Agent:
		remote.Arrive()
		os.Exit(agent.Main())
	}
	if err := runJobs(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "shorttest:", err)
		os.Exit(1)
	}
}

// first is the number of jobs that run before the first count. They open the descriptors that Go and its libraries open
// only once.
const first = 3

func runJobs(count string, args []string) error {
	jobs, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	if err := several(first, args); err != nil {
		return err
	}
	before, err := report()
	if err == nil {
		err = several(jobs, args)
	}
	if err != nil {
		return err
	}
	after, err := report()
	if after > before {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
	}
	return err
}

// several runs jobs in a row.
func several(jobs int, args []string) error {
	for i := range jobs {
		if err := job(args); err != nil {
			return fmt.Errorf("job %d: %w", i, err)
		}
	}
	return nil
}

// job runs one job, which must print something and succeed.
func job(args []string) error {
	r, err := cli.Parse(args, cli.ReadTextFile)
	if err != nil {
		return err
	}
	at, err := run.Here()
	if err != nil {
		return err
	}
	p, err := run.Prepared(plan.New(r, at, run.NewIdentity()))
	if err != nil {
		return err
	}
	var out, errs bytes.Buffer
	o, err := run.Job(p, at, agent.RootConfig{Out: agent.NewSink(&out, &errs, agent.Style{}),
		Report: func(any) {}, Warn: func(string) {}, Offspring: plan.Offspring(r)})
	switch {
	case err != nil:
		return err
	case o.Code != 0:
		return fmt.Errorf("code %d: %v %s", o.Code, o.Faults, errs.String())
	case out.Len() == 0 || errs.Len() > 0:
		return fmt.Errorf("it printed %q and %q", out.String(), errs.String())
	}
	return nil
}

// report prints the numbers, and returns that of the goroutines. Those of what has ended go at
// their next turn, which on a busy machine takes a while, so it waits for a number that stays for a
// second.
func report() (routines int, err error) {
	for same := 0; same < 200; time.Sleep(5 * time.Millisecond) {
		now := runtime.NumGoroutine()
		if same++; now != routines {
			routines, same = now, 0
		}
	}
	runtime.GC() // what has only a finalizer
	dir, err := os.ReadDir("/proc/self/fd")
	fmt.Println(routines, len(dir))
	return routines, err
}
