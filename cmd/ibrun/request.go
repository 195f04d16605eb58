package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/internal/exit"
	"ibrun/internal/hostlist"
	"ibrun/internal/plain"
	"ibrun/job"
)

type action uint8

const (
	run action = iota
	help
	version
	dryRun
	makeCapture
	showTopo
	examineNodes
	printCosts
)

// segment is one program of the command line, between colons.
type segment struct {
	ranks uint64
	argv  []string
	dir   string
	sets  []string // NAME=VALUE for this program
	hosts hostList
	multi bool // --multi-prog: argv names a file of programs
}

// request is a command line as it was written. Files that it names have not
// been opened.
type request struct {
	action   action
	now      segment // the program whose options are being read
	word     string  // the option that is being obeyed, as written
	segments []segment
	warnings []string

	hosts     hostList // of the whole job; see shareHosts
	exclude   []hostlist.Entry
	manager   string // -rmk
	nodes     nodeSpan
	either    nodeSpan // -N
	rankFile  string   // --rankfile
	spares    uint64   // hosts held back, the last ones
	minNodes  uint64   // 0: all
	offset    uint64
	perNode   uint64
	plane     uint64            // ranks are dealt to nodes so many at a time; 0: nodes are filled
	number    numbering         // --rank-by, -m
	scatter   bool              // -m with fcyclic
	span      bool              // :SPAN: evenly over all nodes
	byLoad    bool              // --map-by load
	weights   map[string]uint32 // of --map-by load, by host
	binding   job.Binding
	topoInput string // --topo-input: another machine's capture instead of this machine
	capture   string // --capture: the file that one goes to

	env        environRules
	output     job.Output
	label      bool
	prefix     string // -prepend-pattern
	outputDir  outputDir
	jobName    string
	timestamp  bool
	stdin      string // "", "none", "all" or a rank
	launch     job.Launch
	tree       string
	timeout    time.Duration
	wait       time.Duration
	killOnBad  bool
	allCodes   bool
	verbose    int
	quiet      bool
	preflight  bool
	configFile string
	showMap    bool
	showAlloc  bool
	mpi        job.MPI
	pmiPort    bool   // --pmi-port
	toldMPI    string // --mpi mpich or another that is sure; else ""
	crowd      bool   // --oversubscribe: no word about it
	strict     bool   // --nooversubscribe: no more ranks on a node than slots
	noLocal    bool   // --nolocal
	fanout     string // --fanout
	lazy       string // "", auto, on, off
	eager      bool
	fabric     string // "", auto, ib, udp, tcp
	sl, gid    uint8
	pkey       uint16
	spin       bool
	iface      string
	stats      string // "", text, json
	keepGoing  bool
	timing     bool
	trace      string // the file, or empty
	report     string
	killGiven  bool
	mca        []string // Open MPI's settings that ibrun does not know
}

// Defaults that users may see.
const (
	launchTimeout = 15 * time.Second
	killGrace     = 2 * time.Second
)

func newRequest() *request {
	return &request{
		killOnBad: true, preflight: true, tree: tree.Shape{Kind: tree.Auto}.Name(),
		launch: job.Launch{Launcher: "ssh", SSH: "auto", Timeout: launchTimeout, Grace: killGrace},
	}
}

func (r *request) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, w := range r.warnings {
		if w == text {
			return
		}
	}
	r.warnings = append(r.warnings, text)
}

// finish looks at what only the whole line can tell.
func (r *request) finish() error {
	if err := r.shareHosts(); err != nil {
		return err
	}
	several := len(r.segments) > 1 && r.segments[0].hosts.named()
	for _, c := range []struct {
		both bool
		text string
	}{
		{r.rankFile != "" && r.said(), "--rankfile says where each rank goes: leave out the other options that do"},
		{several && (r.nodes.least > 0 || r.rankFile != ""), "--nodes and --rankfile need one list of hosts for all programs"},
		{r.nodes.least > 0 && r.either.least > 0, "-N contradicts --nodes: write one of them"},
		{r.output.Terminal && (r.stdin == "all" || r.stdin == "none" || r.output.StdinFile != ""), "--pty gives one rank standard input: leave out --input and --stdin all or none"},
		{r.output.Terminal && (r.label || r.timestamp || r.prefix != ""), "--pty contradicts -l, --timestamp-output and -prepend-pattern: a terminal has no lines to label"},
		{r.output.Terminal && (r.output.StdoutFile+r.output.StderrFile+r.outputDir.name != "" || r.output.Merge),
			"--pty contradicts --output, --error, --output-filename and --merge-stderr-to-stdout"},
		{r.prefix != "" && r.label, "-prepend-pattern contradicts -l: write one of them, %r is the rank"},
		{strings.ContainsAny(job.Letters(r.prefix), "hp") && r.minNodes > 0, "-prepend-pattern with %h or %p contradicts --min-nodes: which host has a rank is not known before"},
		{r.outputDir.name != "" && r.output.StdoutFile+r.output.StderrFile != "", "--output-filename contradicts --output and --error: write one of them"},
		{len(r.segments) > 1 && slices.ContainsFunc(r.segments, func(s segment) bool { return s.multi }), "--multi-prog names the programs of the whole job: write it alone, or the programs between colons"},
		{several && r.spares > 0, "--spares: with hosts for each program it cannot be said whose are held back; write one list for all"},
		{several && r.offset > 0, "-o: with hosts for each program it cannot be said whose slots are skipped; write one list for all"},
		{r.verbose > 0 && r.quiet, "-v contradicts -q: write one of them"},
		{r.lazy == "on" && r.eager, "--lazy=on contradicts --eager: write one of them"},
		{r.keepGoing && r.killGiven && r.killOnBad, "-K contradicts --keep-going: write one of them"},
		{r.mpi == job.MPIOpen && r.pmiPort, "--mpi openmpi contradicts --pmi-port, since libpmi has the descriptor only: write one of them"},
		{r.mpi == job.MPINone && r.pmiPort, "--mpi none contradicts --pmi-port: write one of them"},
		{r.stdin != "" && r.output.StdinFile != "", "--stdin contradicts --input: write one of them"},
		{r.output.Merge && r.output.StderrFile != "", "--error contradicts --merge-stderr-to-stdout: write one of them"},
		{r.env.all && r.env.limit, "-genvall contradicts -genvnone and -envlist: write one of them"},
		{r.crowd && r.strict, "--oversubscribe contradicts --nooversubscribe: write one of them"},
		{r.byLoad && r.strict, "--map-by load goes by what is free and not by slots, so it contradicts --nooversubscribe: write one of them"},
		{r.scatter && r.binding.PE > 1, "-m with fcyclic would spread the cores of a rank over packages, which is not done: write cyclic"},
		{r.number.span && r.binding.Map <= job.Unbound, "--rank-by span goes with --map-by OBJECT, whose objects take turns"},
		{r.topoInput != "" && r.action == run && r.binding.PerObj == 0 && !r.number.span,
			"--topo-input goes with --dry-run, --display topo without a program, or ppr: nodes read their own topology"},
		{r.noLocal && !r.everywhere().named(), "--nolocal leaves no host: name others with --hosts"},
		{r.fanout != "" && r.tree != "auto" && r.tree != "kary" && r.tree != "kary:"+r.fanout, "--fanout contradicts --tree " + r.tree + ": write --tree kary:" + r.fanout},
	} {
		if c.both {
			return exit.Usagef("%s", c.text)
		}
	}
	if r.fanout != "" {
		r.tree = "kary:" + r.fanout
	}
	if s, err := tree.Parse(r.tree); err == nil && s.Cost.Window > 0 {
		return exit.Usagef("tree %q names a window: write --batch %d for that", r.tree, s.Cost.Window)
	} else if err != nil {
		return exit.Usagef("option --tree: %v", err)
	}
	if err := r.checkViews(); err != nil {
		return err
	}
	if r.keepGoing {
		r.killOnBad = false
	}
	if len(r.mca) > 0 {
		r.warn("--mca %s: nothing that ibrun knows; programs get it as OMPI_MCA_* in their environment, as from mpirun", plain.Text(strings.Join(r.mca, ", ")))
	}
	return nil
}

// said reports whether an option besides --rankfile says where ranks go.
func (r *request) said() bool {
	b := r.binding
	return b.Map != job.Unsaid || b.Rank != job.Unsaid || b.PE+b.PerObj > 0 || len(b.CPUs) > 0 || b.Bind > job.Unbound ||
		r.plane+r.perNode+r.offset > 0 || r.span || r.byLoad || r.number.said || r.nodes.least+r.either.least > 0
}

// offspring is what jobs that ranks spawn take over of the command line.
func (r *request) offspring() wire.Offspring {
	return wire.Offspring{Tree: r.tree, Preflight: r.preflight, Label: r.label, Prefix: r.prefix, Timestamp: r.timestamp, Quiet: r.quiet, Verbose: uint32(r.verbose)}
}

func (r *request) wantsViews() bool { return r.timing || r.trace != "" || r.report != "" }

// checkViews finds what cannot go together.
func (r *request) checkViews() error {
	if r.trace != "" && r.trace == r.report {
		return exit.Usagef("--trace and --report both write %s: name two files", r.trace)
	}
	return nil
}
