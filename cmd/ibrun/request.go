package main

import (
	"fmt"
	"strings"
	"time"

	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
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
}

// request is a command line as it was written. Files that it names have not
// been opened.
type request struct {
	action   action
	now      segment // the program whose options are being read
	word     string  // the option that is being obeyed, as written
	segments []segment
	warnings []string

	hosts     []hostlist.Entry
	hostFiles []string
	exclude   []hostlist.Entry
	spares    uint64 // hosts held back, the last ones
	minNodes  uint64 // 0: all
	offset    uint64
	perNode   uint64
	plane     uint64            // ranks are dealt to nodes so many at a time; 0: nodes are filled
	span      bool              // :SPAN: evenly over all nodes
	byLoad    bool              // --map-by load
	weights   map[string]uint32 // of --map-by load, by host
	binding   job.Binding
	topoInput string // --topo-input: another machine's capture instead of this machine
	capture   string // --capture: the file that one goes to

	env        environRules
	output     job.Output
	label      bool
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
	mpi        job.MPI
	pmiPort    bool   // --pmi-port
	toldMPI    string // --mpi mpich or another that is sure; else ""
	crowd      bool   // --oversubscribe: no word about it
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

// warnLater gives the warning of an option whose capability is to come.
// finish looks at what only the whole line can tell.
func (r *request) finish() error {
	for _, c := range []struct {
		both bool
		text string
	}{
		{len(r.hosts) > 0 && len(r.hostFiles) > 0, "--hosts and -f both name hosts: write one of them"},
		{r.verbose > 0 && r.quiet, "-v contradicts -q: write one of them"},
		{r.lazy == "on" && r.eager, "--lazy=on contradicts --eager: write one of them"},
		{r.keepGoing && r.killGiven && r.killOnBad, "-K contradicts --keep-going: write one of them"},
		{r.mpi == job.MPIOpen && r.pmiPort, "--mpi openmpi contradicts --pmi-port, since libpmi has the descriptor only: write one of them"},
		{r.mpi == job.MPINone && r.pmiPort, "--mpi none contradicts --pmi-port: write one of them"},
		{r.stdin != "" && r.output.StdinFile != "", "--stdin contradicts --input: write one of them"},
		{r.output.Merge && r.output.StderrFile != "", "--error contradicts --merge-stderr-to-stdout: write one of them"},
		{r.env.all && r.env.limit, "-genvall contradicts -genvnone and -envlist: write one of them"},
		{r.noLocal && len(r.hosts)+len(r.hostFiles) == 0, "--nolocal leaves no host: name others with --hosts"},
		{r.fanout != "" && r.tree != "auto" && r.tree != "kary" && r.tree != "kary:"+r.fanout, "--fanout contradicts --tree " + r.tree + ": write --tree kary:" + r.fanout},
	} {
		if c.both {
			return usageError{c.text}
		}
	}
	if r.fanout != "" {
		r.tree = "kary:" + r.fanout
	}
	if s, err := tree.Parse(r.tree); err == nil && s.Cost.Window > 0 {
		return usagef("tree %q names a window: write --batch %d for that", r.tree, s.Cost.Window)
	} else if err != nil {
		return usagef("option --tree: %v", err)
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

// offspring is what jobs that ranks spawn take over of the command line.
func (r *request) offspring() wire.Offspring {
	return wire.Offspring{Tree: r.tree, Preflight: r.preflight, Label: r.label, Timestamp: r.timestamp, Quiet: r.quiet, Verbose: uint32(r.verbose)}
}
