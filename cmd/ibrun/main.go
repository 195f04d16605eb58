// Whether a container's limit of CPU time changes is not worth asking: threads are few here.

//go:debug updatemaxprocs=0

// Command ibrun starts a parallel program on many nodes over a tree of remote
// shells. This package turns what a user typed into a job, and what became of
// it into text and an exit code; everything else is below it.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/agent"
	"ibrun/bootstrap/tree/costs"
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/cmd/ibrun/internal/ctl"
	"ibrun/cmd/ibrun/internal/plan"
	"ibrun/cmd/ibrun/internal/report"
	"ibrun/cmd/ibrun/internal/run"
	"ibrun/internal/build"
	"ibrun/internal/exit"
	"ibrun/internal/job"
	"ibrun/internal/plain"
	"ibrun/internal/proc"
	"ibrun/topo"
)

// release is the version of the protocol and the command line.
const release = "0.1"

func main() {
	if code, ok := role(os.Args[1:]); ok {
		os.Exit(code)
	}
	if args, ok := controls(os.Args); ok {
		openStandard()
		os.Exit(ctl.Main(args, proc.ConsoleWriter(os.Stdout)))
	}
	code, err := command(os.Args[1:])
	if err != nil {
		code = complain(err)
	}
	os.Exit(code)
}

// command executes the command line and returns the exit code of ibrun. If err is not nil, ibrun exits with the code of
// err instead.
func command(args []string) (code int, err error) {
	openStandard()
	began := time.Now()
	r, err := cli.Parse(args, cli.ReadTextFile)
	if err != nil {
		return 0, err
	}
	switch r.Action {
	case cli.Help:
		_, _ = os.Stdout.WriteString(helpText)
		return 0, nil
	case cli.MakeCapture:
		return 0, captureTo(r.Capture)
	case cli.ShowTopo:
		return 0, showMachine(r)
	case cli.Version:
		fmt.Printf("ibrun %s, build %s, %s\n", release, build.ID(), build.Machine())
		return 0, nil
	}
	by, err := findTool()
	if err != nil {
		return 0, err
	}
	at, err := run.Here()
	if err != nil {
		return 0, err
	}
	if r.Action == cli.PrintCosts {
		costs.Show(os.Stdout, costs.Path(at.Env))
		return 0, nil
	}
	reporter := &report.Reporter{To: proc.ConsoleWriter(os.Stderr), Quiet: r.Quiet, Verbose: r.Verbose, Began: began,
		JSON: r.Binding.Data}
	if r.Action == cli.ExamineNodes {
		return run.Doctor(r, at, reporter)
	}
	if r.ByLoad && r.Action == cli.Run {
		if at.Weights, code, err = run.Load(r, at, reporter); err != nil || code != 0 {
			return code, err
		}
	}
	p, err := run.Prepared(plan.New(r, at, run.NewIdentity()))
	if err != nil {
		return 0, err
	}
	reporter.Layout, reporter.Limited = p.Job.Layout, p.Limited
	if p.Here >= 0 && int(p.Nodes.At(p.Here).Ranks) > runtime.NumCPU() {
		p.Warn(plan.Narrow(topo.ReadPlaces(proc.Here(), true), int(p.Nodes.At(p.Here).Ranks)))
	}
	if r.Verbose > 0 && p.Origin != "" {
		reporter.Warn(p.Origin)
	}
	if !r.Quiet {
		for _, w := range p.Warnings {
			reporter.Warn(w)
		}
	}
	if r.Action == cli.DryRun {
		return 0, report.DryRun(r, p, at)
	}
	return start(r, p, at, reporter, by)
}

// start runs a job to its end, and returns its exit code.
func start(r *cli.Request, p *plan.Plan, at plan.Surroundings, reporter *report.Reporter, by tool) (code int,
	err error) {
	if r.ShowAlloc {
		report.DescribeAllocation(os.Stderr, p)
	}
	if r.ShowMap {
		report.Describe(os.Stderr, p)
	}
	if reporter.Views, err = report.OpenViews(r, p, at.Host, reporter.Line); err != nil {
		return 0, err
	}
	keys, err := readKeys(r.CCSAuth)
	if err != nil {
		return 0, err
	}
	out, errs := proc.ConsoleWriter(os.Stdout), proc.ConsoleWriter(os.Stderr)
	terminal := openTerminal(p.Job)
	defer terminal.Give()
	if proc.IsTerminal(os.Stderr) && !r.Quiet {
		hidden := func() bool { return proc.InBackground(os.Stderr) }
		reporter.Progress = report.NewProgress(errs, hidden, p.Nodes.Len(), report.ProgressAfter)
		out, errs = reporter.Progress.Under(out), reporter.Progress.Under(errs)
	}
	out, errs = terminal.under(out), terminal.under(errs)
	reporter.To, reporter.OnStart = errs, terminal.take
	out, errs = proc.InTurn(os.Stdout, out), proc.InTurn(os.Stderr, errs)
	cfg := agent.RootConfig{
		Out:    agent.NewSink(out, errs, style(p, r.Label, r.Timestamp, r.Prefix, reporter)),
		Report: reporter.Event, Warn: reporter.Warn, Offspring: plan.Offspring(r),
		CCSPort: r.CCSPort, CCSKeys: keys,
	}
	by.use(p, &cfg)
	o, err := run.Job(p, at, cfg)
	terminal.Give()
	reporter.LaunchOver()
	reporter.Views.Finish(o)
	if err != nil {
		return 0, err
	}
	if launch := reporter.Views.Launch; launch != nil && o.AllStarted {
		costs.Note(costs.Path(at.Env), p.Site(), launch)
	}
	reporter.Outcome(o, p.Policy.Timeout, r.AllCodes)
	if hint := report.MPIHint(o, p.Job.Size, r.MPIGiven); hint != "" && !r.Quiet && r.MPI != job.MPINone {
		reporter.Warn(hint)
	}
	switch s := report.NewStatistics(p.Job, &o.Tally); r.Stats {
	case "json":
		s.JSON(proc.ConsoleWriter(os.Stderr))
	case "text":
		s.Text(reporter.Line)
	}
	return o.Code, nil
}

// style returns the options that format the output of ranks on ibrun's standard output and standard error.
func style(p *plan.Plan, label, timestamp bool, prefix string, say *report.Reporter) agent.Style {
	s := agent.Style{Label: label, Timestamp: timestamp, Escape: [3]bool{1: proc.IsTerminal(os.Stdout),
		2: proc.IsTerminal(os.Stderr)}}
	if p.Job.Output.Terminal {
		s.Direct = proc.InTurn(os.Stdout, proc.ConsoleWriter(os.Stdout))
		s.Terminal = p.Job.Layout.Rank(p.Job.Stdin.Rank)
	}
	if prefix != "" {
		s.Prefix = func(rank job.Rank) string { return report.LinePrefix(p, prefix, rank, say.HostOf) }
	}
	return s
}

// complain says why there is no job, and returns the exit code for it.
func complain(err error) int {
	if !errors.Is(err, plan.ErrNotFirst) {
		fmt.Fprintf(proc.ConsoleWriter(os.Stderr), "ibrun: %s\n", plain.Text(err.Error()))
	}
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
