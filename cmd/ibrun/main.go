// Command ibrun starts a parallel program on many nodes over a tree of remote
// shells. This package turns what a user typed into a job, and what became of
// it into text and an exit code; everything else is below it.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/agent"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/timing"
	"ibrun/internal/build"
	"ibrun/internal/costfile"
	"ibrun/internal/exit"
	"ibrun/internal/limits"
	"ibrun/internal/plain"
	"ibrun/internal/pseudo"
	"ibrun/internal/report"
	"ibrun/job"
	"ibrun/topo"
)

// release is the version of the protocol and the command line.
const release = "0.1"

func main() {
	if code, ok := role(os.Args[1:]); ok {
		os.Exit(code)
	}
	os.Exit(launch(os.Args[1:]))
}

// launch is the whole of ibrun for a user, up to the exit code.
func launch(args []string) int {
	openStandard()
	began := time.Now()
	r, err := parse(args)
	if err != nil {
		return complain(err)
	}
	switch r.action {
	case help:
		_, _ = os.Stdout.WriteString(helpText)
		return 0
	case makeCapture:
		return captureTo(r.capture)
	case showTopo:
		return showMachine(r)
	case version:
		fmt.Printf("ibrun %s, build %s, %s\n", release, build.ID(), build.Machine())
		return 0
	}
	at, err := here()
	if err != nil {
		return complain(err)
	}
	if r.action == printCosts {
		costfile.Show(os.Stdout, costfile.Path(at.env))
		return 0
	}
	say := &report.Reporter{To: os.Stderr, Quiet: r.quiet, Verbose: r.verbose, Began: began, JSON: r.binding.Data}
	if r.action == examineNodes {
		return r.examine(at, say)
	}
	if r.byLoad && r.action == run {
		if code, err := r.measureLoad(at, say); err != nil {
			return complain(err)
		} else if code != 0 {
			return code
		}
	}
	p, err := makePlan(r, at)
	if err != nil {
		return complain(err)
	}
	say.Layout = p.job.Layout
	if p.here >= 0 {
		p.warn(narrow(topo.Read(pseudo.Here()), int(p.nodes.At(p.here).Ranks)))
	}
	if !r.quiet {
		for _, w := range p.warnings {
			say.Line("%s", w)
		}
	}
	if r.action == dryRun {
		return foretell(r, p)
	}
	if r.showAlloc {
		describeAllocation(os.Stderr, p)
	}
	if r.showMap {
		describe(os.Stderr, p)
	}
	timed := func(times []job.NodeTimes, missing uint32, spares map[uint32]string) *timing.Launch {
		return p.timed(at.host, times, missing, spares)
	}
	names := report.ViewNames{Timing: r.timing, JSON: r.binding.Data, Trace: r.trace, Page: r.report}
	if say.Views, err = report.OpenViews(names, timed, say.Line); err != nil {
		return complain(err)
	}
	var out, errs io.Writer = os.Stdout, os.Stderr
	user := openTerminal(p.job)
	defer user.give()
	if terminal(2) && !r.quiet {
		say.Progress = report.NewProgress(os.Stderr, p.nodes.Len(), report.ProgressAfter)
		out, errs = say.Progress.Under(out), say.Progress.Under(errs)
	}
	out, errs = user.under(out), user.under(errs)
	say.To, say.OnStart = errs, user.take
	o, err := conduct(p, at, agent.RootConfig{
		Out: agent.NewSink(out, errs, p.style(r.label, r.timestamp, r.prefix, say)), Report: say.Event, Warn: say.Warn, Offspring: r.offspring(),
	})
	user.give()
	say.LaunchOver()
	say.Views.Finish(o)
	if err != nil {
		return complain(err)
	}
	if seen := say.Views.Launch(); seen != nil && o.Started {
		costfile.Note(costfile.Path(at.env), p.site(), seen)
	}
	say.Outcome(o, p.policy.Timeout, r.allCodes)
	if hint := report.MPIHint(o, p.job.Size, r.toldMPI); hint != "" && !r.quiet && r.mpi != job.MPINone {
		say.Line("%s", hint)
	}
	switch s := report.NewStatistics(p.job, &o.Tally); r.stats {
	case "json":
		s.JSON(os.Stderr)
	case "text":
		s.Text(say.Line)
	}
	return o.Code
}

// conduct runs the job of a plan to its end. The plan's part of cfg is filled in.
func conduct(p *plan, at surroundings, cfg agent.RootConfig) (core.Outcome, error) {
	starter, err := remote.New(p.job.Launch, remote.Options{})
	if err == nil && (p.nodes.Len() > 1 || p.here < 0) {
		err = starter.Check()
	}
	if err != nil {
		return core.Outcome{}, err
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails: Go ends the program instead
	_, _ = rand.Read(p.job.Secret[:])
	p.job.ID = hex.EncodeToString(id[:])
	cfg.Job, cfg.Nodes, cfg.Here, cfg.Host, cfg.Policy, cfg.Stdin = p.job, p.nodes, p.here, at.host, p.policy, os.Stdin
	cfg.Offspring.Alloc, cfg.Offspring.KillOnBad, cfg.Offspring.Wait = p.alloc, p.policy.KillOnBad, p.policy.Wait
	return agent.RunRoot(context.Background(), cfg)
}

// complain says why there is no job, and returns the exit code for it.
func complain(err error) int {
	fmt.Fprintf(os.Stderr, "ibrun: %s\n", plain.Text(err.Error()))
	return exit.Code(err)
}

// openStandard gives closed standard descriptors something harmless, so that
// no file of ours lands on their numbers.
func openStandard() {
	for fd := range 3 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			continue
		}
		mode := os.O_WRONLY
		if fd == 0 {
			mode = os.O_RDONLY
		}
		if f, err := os.OpenFile(os.DevNull, mode, 0); err == nil && int(f.Fd()) != fd {
			_ = unix.Dup3(int(f.Fd()), fd, 0)
			f.Close()
		}
	}
}

// here is what the job takes over from this process.
func here() (surroundings, error) {
	at := surroundings{env: os.Environ(), limits: limits.Original()}
	var err error
	if at.host, err = os.Hostname(); err != nil {
		return at, err
	}
	at.host = strings.ToLower(at.host)
	if at.cwd, err = os.Getwd(); err != nil {
		return at, exit.Usagef("the working directory cannot be told: %v; change to one that exists", err)
	}
	at.costs = costfile.Read(costfile.Path(at.env))
	if u, err := user.Current(); err == nil {
		at.user = u.Username
	}
	mask := unix.Umask(0)
	unix.Umask(mask)
	at.umask = uint32(mask)
	return at, nil
}

func terminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}
