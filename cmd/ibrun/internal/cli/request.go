package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ibrun/bootstrap/tree"
	"ibrun/internal/exit"
	"ibrun/internal/hostlist"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// Action is what a command line asks for.
type Action uint8

const (
	Run          Action = iota // a job
	Help                       // -h
	Version                    // -V
	DryRun                     // --dry-run: the plan of a job
	MakeCapture                // --capture
	ShowTopo                   // --display topo without a program
	ExamineNodes               // --doctor
	PrintCosts                 // --calibrate
)

// Segment is one program of the command line, between colons.
type Segment struct {
	Ranks uint64   // -n; 0: not given
	Argv  []string // the program and its arguments, never empty
	Dir   string   // -wdir as written; "": not given
	Sets  []string // NAME=VALUE for this program
	Hosts HostList
	Multi bool // --multi-prog: Argv names a file of programs
}

// Request is a command line as it was written, checked as far as that is possible without a file or
// a machine: files that it names have not been opened. Numbers are 0 and words are "" where the
// command line does not say.
type Request struct {
	Action   Action
	Segments []Segment
	Warnings []string // for the user, each once

	// Where ranks run.
	Hosts           HostList // of the whole job; see shareHosts
	Exclude         []hostlist.Entry
	Manager         string    // -rmk; "none": no allocation counts
	NoAllocation    bool      // --no-allocation: as if outside of any manager's job
	SharedSteps     bool      // --shared-steps: agents of a step call back, which opens a port meanwhile
	Nodes           NodeSpan  // --nodes
	NodesOrPerNode  NodeSpan  // -N, whose meaning the hosts decide
	RankFile        string    // --rankfile
	Spares          uint64    // hosts held back, the last ones
	MinNodes        uint64    // 0: all
	Offset          uint64    // -o: slots that are skipped
	PerNode         uint64    // ranks on each node
	Plane           uint64    // ranks are dealt to nodes so many at a time; 0: nodes are filled
	Numbering       Numbering // --rank-by, -m
	Evenly          bool      // :SPAN: over all nodes
	ByLoad          bool      // --map-by load
	NoLocal         bool      // --nolocal
	Oversubscribe   bool      // --oversubscribe: no word about it
	NoOversubscribe bool      // --nooversubscribe: no more ranks on a node than slots
	Binding         job.Binding
	TopoInput       string // --topo-input: another machine's capture instead of this machine
	Capture         string // --capture: the file that one goes to

	// What ranks get, and where what they print goes.
	Env       EnvironRules
	JobName   string // -J
	MPI       job.MPI
	PMIPort   bool    // --pmi-port
	CCSPort   *uint16 // --ccs-port; nil: none; 0: any
	CCSAuth   string  // --ccs-auth: a file of keys; empty: none
	MPIGiven  string  // the option that is sure of an MPI library: "--mpi mpich"
	Stdin     string  // "none", "all" or a rank
	Output    job.Output
	OutputDir OutputDir
	Label     bool
	Timestamp bool
	Prefix    string // -prepend-pattern

	// How the job starts, and when it ends.
	Launch    job.LaunchOptions
	Tree      string        // --tree, which tree.Parse takes
	Preflight bool          // programs and directories are looked for first
	Timeout   time.Duration // 0: none
	Wait      time.Duration // from the end of the first rank to that of the job; 0: for ever
	KillOnBad bool          // a rank that fails ends the job
	KeepGoing bool          // --keep-going
	// MaxRestarts is how many restarts there may be within any time RestartsWithin; 0: the whole
	// job.
	MaxRestarts    int
	RestartsWithin time.Duration
	RepairAsked    bool // --on-agent-loss repair; with --on-failure restart the tree is repaired anyway

	// How ranks that use the package ibrun reach each other.
	Fabric  string // "auto", "ib", "udp" or "tcp"
	Iface   string
	SL      uint8    // service level, or job.SLOfPath
	GID     uint8    // 1 + the index in the port's table
	PKey    uint16   // partition
	Poll    job.Poll // how ranks wait
	Lazy    string   // "auto", "on" or "off"
	Eager   bool
	Stats   string // "text" or "json"
	Timing  bool   // --timing
	Trace   string // --trace: a file
	Report  string // --report: a file
	Verbose int    // how often -v was given
	Quiet   bool

	// What is shown.
	ShowMap, ShowAlloc bool // --display map, allocation
	AllCodes           bool // --print-all-exitcodes

	now        Segment // the program whose options are being read
	word       string  // the option that is being obeyed, as written
	scatter    bool    // -m with fcyclic
	configFile string
	fanout     string   // --fanout
	killGiven  bool     // -K
	mostGiven  bool     // --max-restarts
	lossGiven  bool     // --on-agent-loss
	mca        []string // Open MPI's settings that ibrun does not know
}

// Defaults that users may see.
const (
	launchTimeout = 15 * time.Second
	maxRestarts   = 3
	killGrace     = 2 * time.Second
)

// NewRequest returns a request with the default values of all options.
func NewRequest() *Request {
	return &Request{
		KillOnBad: true, MaxRestarts: maxRestarts, Preflight: true, Tree: tree.Shape{Kind: tree.Auto}.Name(),
		Launch: job.LaunchOptions{Launcher: "auto", SSH: "auto", Timeout: launchTimeout, Grace: killGrace},
	}
}

func (r *Request) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.Warnings, text) {
		r.Warnings = append(r.Warnings, text)
	}
}

// finish looks at what only the whole line can tell.
func (r *Request) finish() error {
	if err := r.shareHosts(); err != nil {
		return err
	}
	several := len(r.Segments) > 1 && r.Segments[0].Hosts.Named()
	events := r.Launch.TraceEvents
	for _, c := range []struct {
		both bool
		text string
	}{
		{r.RankFile != "" && r.placesRanks(),
			"--rankfile says where each rank goes: leave out the other options that do"},
		{several && (r.Nodes.Least > 0 || r.RankFile != ""),
			"--nodes and --rankfile need one list of hosts for all programs"},
		{r.Nodes.Least > 0 && r.NodesOrPerNode.Least > 0, "-N contradicts --nodes: write one of them"},
		{r.Output.Terminal && (r.Stdin == "all" || r.Stdin == "none" || r.Output.StdinFile != ""),
			"--pty gives one rank standard input: leave out --input and --stdin all or none"},
		{r.Output.Terminal && (r.Label || r.Timestamp || r.Prefix != ""),
			"--pty contradicts -l, --timestamp-output and -prepend-pattern: a terminal has no lines to label"},
		{r.Output.Terminal && (r.Output.StdoutFile+r.Output.StderrFile+r.OutputDir.Name != "" || r.Output.Merge),
			"--pty contradicts --output, --error, --output-filename and --merge-stderr-to-stdout"},
		{r.Prefix != "" && r.Label, "-prepend-pattern contradicts -l: write one of them, %r is the rank"},
		{strings.ContainsAny(job.Letters(r.Prefix), "hp") && r.MinNodes > 0,
			"-prepend-pattern with %h or %p contradicts --min-nodes: which host has a rank is not known before"},
		{r.OutputDir.Name != "" && r.Output.StdoutFile+r.Output.StderrFile != "",
			"--output-filename contradicts --output and --error: write one of them"},
		{len(r.Segments) > 1 && slices.ContainsFunc(r.Segments, func(s Segment) bool { return s.Multi }),
			"--multi-prog names the programs of the whole job: write it alone, or the programs between colons"},
		{several && r.Spares > 0,
			"--spares: with hosts for each program it cannot be said whose are held back; write one list for all"},
		{several && r.Offset > 0,
			"-o: with hosts for each program it cannot be said whose slots are skipped; write one list for all"},
		{r.NoAllocation && r.Manager != "" && r.Manager != "user" && r.Manager != "none",
			"--no-allocation contradicts -rmk " + r.Manager + ": write one of them"},
		{r.Verbose > 0 && r.Quiet, "-v contradicts -q: write one of them"},
		{r.Lazy == "on" && r.Eager, "--lazy=on contradicts --eager: write one of them"},
		{r.KeepGoing && r.killGiven && r.KillOnBad, "-K contradicts --keep-going: write one of them"},
		{r.Launch.Restarts && (r.KeepGoing || r.killGiven && !r.KillOnBad),
			"--keep-going contradicts --on-failure: write one of them"},
		{r.Launch.RestartAll && r.Launch.Repair,
			"--on-failure restart-all contradicts --on-agent-loss repair: write one of them"},
		{r.mostGiven && !r.Launch.Restarts, "--max-restarts goes with --on-failure restart or restart-all"},
		{r.MPI == job.MPIOpen && r.PMIPort,
			"--mpi openmpi contradicts --pmi-port, since libpmi has the descriptor only: write one of them"},
		{r.CCSAuth != "" && r.CCSPort == nil, "--ccs-auth is of --ccs-port, which is not given"},
		{r.MPI == job.MPINone && r.PMIPort, "--mpi none contradicts --pmi-port: write one of them"},
		{r.Stdin != "" && r.Output.StdinFile != "", "--stdin contradicts --input: write one of them"},
		{r.Output.Merge && r.Output.StderrFile != "",
			"--error contradicts --merge-stderr-to-stdout: write one of them"},
		{r.Env.all && r.Env.Limited, "-genvall contradicts -genvnone and -envlist: write one of them"},
		{r.Oversubscribe && r.NoOversubscribe, "--oversubscribe contradicts --nooversubscribe: write one of them"},
		{r.ByLoad && r.NoOversubscribe,
			"--map-by load goes by what is free and not by slots, so it contradicts " +
				"--nooversubscribe: write one of them"},
		{r.scatter && r.Binding.PE > 1,
			"-m with fcyclic would spread the cores of a rank over packages, which is not done: write cyclic"},
		{r.Numbering.Span && r.Binding.Map <= job.Unbound,
			"--rank-by span goes with --map-by OBJECT, whose objects take turns"},
		{r.TopoInput != "" && r.Action == Run && r.Binding.PerObj == 0 && !r.Numbering.Span,
			"--topo-input goes with --dry-run, --display topo without a program, or ppr: " +
				"nodes read their own topology"},
		{r.fanout != "" && r.Tree != "auto" && r.Tree != "kary" && r.Tree != "kary:"+r.fanout,
			"--fanout contradicts --tree " + r.Tree + ": write --tree kary:" + r.fanout},
		{r.Trace != "" && r.Trace == r.Report, "--trace and --report both write " + r.Trace + ": name two files"},
		{events != "" && events == r.Trace, "--trace and --trace-events both write " + events + ": name two files"},
		{events != "" && events == r.Report, "--report and --trace-events both write " + events + ": name two files"},
	} {
		if c.both {
			return exit.Usagef("%s", c.text)
		}
	}
	if r.Launch.Restarts && !r.Launch.RestartAll && !r.lossGiven {
		r.Launch.Repair = true
	}
	if r.NoAllocation {
		r.Manager = "none"
	}
	if r.fanout != "" {
		r.Tree = "kary:" + r.fanout
	}
	if s, err := tree.Parse(r.Tree); err == nil && s.Cost.Window > 0 {
		return exit.Usagef("tree %q names a window: write --batch %d for that", r.Tree, s.Cost.Window)
	} else if err != nil {
		return exit.Usagef("option --tree: %v", err)
	}
	if r.KeepGoing {
		r.KillOnBad = false
	}
	if len(r.mca) > 0 {
		r.warn("--mca %s: nothing that ibrun knows; programs get it as OMPI_MCA_* in their environment, as from mpirun",
			plain.Text(strings.Join(r.mca, ", ")))
	}
	return nil
}

// placesRanks reports whether an option besides --rankfile says where ranks go.
func (r *Request) placesRanks() bool {
	b := r.Binding
	return b.Map != job.NotGiven || b.Rank != job.NotGiven || b.PE+b.PerObj > 0 || len(b.CPUs) > 0 ||
		b.Bind > job.Unbound ||
		r.Plane+r.PerNode+r.Offset > 0 || r.Evenly || r.ByLoad || r.Numbering.Set ||
		r.Nodes.Least+r.NodesOrPerNode.Least > 0
}

// checkDoctor refuses what an examination does not do.
func (r *Request) checkDoctor() error {
	switch {
	case len(r.Segments) > 0:
		return exit.Usagef("--doctor runs no program: leave out %s", QuoteAll(r.Segments[0].Argv))
	case r.now.Ranks > 0 || r.PerNode > 0 || r.Offset > 0:
		return exit.Usagef("--doctor examines each node once: leave out -n, -ppn and -o; --hosts says which nodes")
	case r.ShowMap || r.Binding.Report || r.Binding.Topo:
		return exit.Usagef("--doctor contradicts --display: write one of them")
	}
	return r.finish()
}
