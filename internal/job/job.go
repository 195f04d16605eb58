// Package job holds the values that describe a parallel job: what every agent receives (Job), which
// node runs which ranks (Nodes), and how ranks end (Status). It validates values; it does not read
// files, resolve names or start anything.
package job

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits that keep every count in 32 bits and every table in memory.
const (
	MaxRanks    = 1 << 24 // ranks in one job
	MaxNodes    = 1 << 20 // nodes in one job
	MaxHostName = 255     // bytes of a host name, RFC 1123 section 2.1

	MaxRanksOnNode = 1<<16 - 1 // what a node's block has room for

	// MaxDescribed is how many ranks a job may have whose ranks may be told of each other's places,
	// and whose agents know all hosts for that.
	MaxDescribed = 1 << 10
)

// Job is what every agent of a job knows. It is the same bytes on each node.
type Job struct {
	ID        string   // 16 lower-case hexadecimal digits, unique per start
	Secret    [32]byte // key of the job; travels in frames only
	Size      uint32   // ranks in the whole job
	Nodes     uint32   // nodes in the whole job
	Programs  []Program
	Umask     uint32
	Limits    []Limit // resource limits of the user's shell
	Output    Output
	Stdin     Stdin
	Launch    LaunchOptions
	Layout    Layout
	Transport Transport
	Binding   Binding
	MPI       MPI
	PMIPort   bool           // PMI through a port of their node's loopback, instead of ranks' descriptors
	FirstHost string         // host of rank 0, for MASTER_ADDR
	Spawner   string         // id of the job whose rank has spawned this one; empty: a user has started it
	Depth     uint32         // spawners up to the user
	Preput    []KeyValue     // what its key-value space begins with
	Own       []RankVariable // the names that a resource manager has for facts about ranks
	Hosts     string         // of all nodes, as a host list, if ranks are told of each other's; empty: not
}

// Verify says what of a job does not fit together.
func (j *Job) Verify() error {
	if j.Layout.Nodes() != j.Nodes || j.Layout.Ranks() != j.Size || j.Nodes == 0 {
		return fmt.Errorf("a layout of %d nodes and %d ranks, for a job of %d and %d", j.Layout.Nodes(),
			j.Layout.Ranks(), j.Nodes, j.Size)
	}
	next := uint64(0)
	for _, p := range j.Programs {
		if uint64(p.First) != next || p.Count == 0 || len(p.Argv) == 0 {
			return fmt.Errorf("a program of ranks %d+%d where %d is next", p.First, p.Count, next)
		}
		if p.App >= MaxRanks {
			return fmt.Errorf("a program of application %d; at most %d are numbered", p.App, MaxRanks)
		}
		next += uint64(p.Count)
	}
	if next != uint64(j.Size) {
		return fmt.Errorf("programs for %d of %d ranks", next, j.Size)
	}
	return nil
}

// KeyValue is a key and a value.
type KeyValue struct{ Key, Value string }

// Transport says how ranks reach each other.
type Transport struct {
	Fabric  string // "auto", "ib", "udp" or "tcp"
	Iface   string // --iface as written, or empty
	Eager   bool   // the whole table goes down the tree once, and what PMI clients put with each fence
	Learn   bool   // nothing waits for the table; nodes that ask for enough get the rest at once (choice.go)
	Why     string // why eager or lazy was chosen, for the user
	Stats   bool   // ranks and agents report what they counted
	Verbose bool   // the first rank of each node says which address it chose, and why

	// Of InfiniBand.
	SL   uint8  // service level, or SLOfPath
	PKey uint16 // partition; 0: the first that the port is a full member of
	GID  uint8  // 1 + the index in the port's table; 0: chosen
	Poll Poll   // of Ethernet too
}

// Poll is how ranks wait for what others send: --poll.
type Poll uint8

// The ways to wait.
const (
	PollAuto   Poll = iota // ranks with cores of their own poll for a moment, and then sleep
	PollEvents             // they sleep
	PollSpin               // they poll without pause
	Polls                  // how many ways there are
)

// Service levels of InfiniBand.
const (
	MaxSL    = 15        // the highest
	SLOfPath = MaxSL + 1 // none of them: that which the subnet manager gives for the path to each peer
)

// Program is one of the programs of a job; most jobs have one.
type Program struct {
	First  Rank // of ranks [First, First+Count)
	Count  uint32
	Argv   []string // bytes, not text: any byte but NUL
	Env    []string // NAME=VALUE, what the user's side contributes
	Drop   []string // names (globs) that belong to a node: ranks see its own values for them
	Dir    string   // working directory, absolute
	App    uint32   // the application's number: programs of one line of --multi-prog share it
	Offset uint32   // ranks of the application before First
	Expand bool     // arguments are patterns: %t is the rank, %o its place in the application
}

// Apps are the number of ranks and the first rank of each application, by its number. The numbers
// of a job that Verify has not refused are small enough for that.
func (j *Job) Apps() (sizes []uint32, firsts []Rank) {
	for i := range j.Programs { // those of an application may come in any order among others
		p := &j.Programs[i]
		for uint32(len(sizes)) <= p.App {
			sizes, firsts = append(sizes, 0), append(firsts, 0)
		}
		sizes[p.App] += p.Count
		if p.Offset == 0 {
			firsts[p.App] = p.First
		}
	}
	return sizes, firsts
}

// Words are numbers with blanks between them, as MPI libraries want lists.
func Words[T ~uint32](numbers []T) string { return strings.Trim(fmt.Sprint(numbers), "[]") }

// Has reports whether a rank runs the program.
func (p *Program) Has(rank Rank) bool { return uint32(rank-p.First) < p.Count }

// Limit is one resource limit, numbered as in getrlimit(2).
type Limit struct {
	Resource   uint8
	Soft, Hard uint64 // ^uint64(0) is RLIM_INFINITY
}

// Output says where what ranks print goes.
type Output struct {
	StdoutFile string // pattern of a per-rank file on the node, with %r %h %t %j; empty: forward
	StderrFile string
	StdinFile  string // pattern of a per-rank input file on the node; empty: see Stdin
	Merge      bool   // stderr joins stdout on the node
	Copy       bool   // what goes to per-rank files is forwarded, too
	Dirs       bool   // folders of per-rank files are made
	Unbuffered bool   // do not wait for the rest of a line
	Lines      bool   // standard output is a terminal on the node, so that programs write line by line
	Terminal   bool   // the rank that reads standard input has a terminal
	Window     Window // of that terminal
}

// Window is the size of a terminal; zero: not known.
type Window struct{ Rows, Cols uint16 }

// StdinMode says which ranks get ibrun's standard input.
type StdinMode uint8

const (
	StdinNone StdinMode = iota
	StdinOne
	StdinAll
)

// Stdin names the readers of ibrun's standard input; all others read /dev/null.
type Stdin struct {
	Mode StdinMode
	Rank Slot // for StdinOne
}

// LaunchOptions says how agents start their children.
type LaunchOptions struct {
	Launcher string   // "ssh", "rsh", "local", or of a manager: "slurm", "sge", "lsf", "flux", "pbs"
	Exec     []string // command that replaces the launcher's own; called as Exec... host command
	Args     []string // extra arguments of the launcher, before the host
	// "native": without the program ssh; "exec": with it; "auto": as each host's configuration
	// allows
	SSH          string
	Tree         string        // tree.Shape as text, for example "greedy:7ms,172ms"
	Batch        uint32        // sessions in flight per parent; 0 lets each agent choose
	Timeout      time.Duration // from the start of one session to the agent's first word
	Grace        time.Duration // from TERM to KILL
	AgentPath    string        // path of an installed ibrun on the nodes; empty: find or ship
	Verbose      bool
	Timed        bool   // agents tell how their part of the launch went
	LateBinding  bool   // subtrees are handed out as agents come up; for a greedy Tree
	StartBarrier bool   // ranks wait until it is settled which nodes take part
	KeepGoing    bool   // a rank that fails does not end the job: the others are told
	TraceEvents  string // --trace-events: path of the root's trace, to which a node appends .HOST; empty: no trace
	Contain      bool   // a node's processes have a PID namespace of their own
	Restarts     bool   // a rank that fails starts again
	RestartAll   bool   // with Restarts: and all others with it
	Hold         bool   // ranks are started stopped, before the first instruction of their programs
	Repair       bool   // the loss of an agent costs its own node only: its parent adopts its children

	// Starter is a resource manager's command that starts a process on a host of its job. In its
	// words StarterHost and the like stand for the host. What runs there follows.
	Starter []string
	Numbers []NumberedHosts // for StarterNumber
}

// LineBuffered reports whether what an agent prints may be held until a line ends.
func (l *LaunchOptions) LineBuffered() bool {
	return len(l.Exec) == 0 && (l.Launcher == "slurm" || l.Launcher == "lsf" || l.Launcher == "flux")
}

// SharesSteps reports whether the starter starts a process on each of several hosts at once.
func (l *LaunchOptions) SharesSteps() bool {
	return slices.ContainsFunc(l.Starter, func(w string) bool { return strings.Contains(w, StarterCount) })
}

// What stands for hosts in a word of LaunchOptions.Starter: the name, or names with commas between;
// the number of the first; how many there are. A starter that has StarterCount starts a process on
// each of several hosts.
const (
	StarterHost   = "%h"
	StarterNumber = "%n"
	StarterCount  = "%c"
)

// NumberedHosts gives numbers to hosts: First to the first one, and Step more to each that follows.
type NumberedHosts struct {
	Hosts       string // a list in the form of hostlist.Names
	First, Step uint32
}
