// Package cli parses the command line of ibrun into a Request. A Grammar describes which words of a command line are
// options, which words are values, and where the program begins. The table in options.go has the names of all options
// and the function that stores each in the Request. Package plan checks the Request against the hosts and the
// allocation.
//
// Only ReadTextFile performs I/O. It reads a file or a pipe that the user has named, and limits the size and the time.
package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ibrun/bootstrap/tree"
	"ibrun/internal/hostlist"
	"ibrun/internal/job"
)

// charm names Charm++ options whose plain name means something else here.
var charm = map[string]string{"p": "np", "ppn": "cpus-per-task", "timeout": "launch-timeout", "nodelist": "hostfile"}

// refused are options that mean different things elsewhere, or that belong to
// a resource manager.
var refused = map[string]string{
	"t": "it means minutes in srun and seconds elsewhere; write --timeout 90s or --timeout 10m",
	"p": "it is the resource manager's; give it to salloc or sbatch, or write -n for ranks",
	"A": "it is the resource manager's; give it to salloc or sbatch",
	"s": "write --stdin, or give it to the resource manager",
	"i": "write --input FILE, or --stdin RANK",
	"e": "write --error FILE",
	"g": "write -genv NAME VALUE",
}

const noCopy = "copying files to nodes is not in this version yet; put them where all nodes see them and leave the " +
	"option out"

// useTraceEvents is the error for the removed options --record and --replay.
const useTraceEvents = "it was removed; hint: write --trace-events FILE"

// on makes a setter for an option without a value.
func on(flag func(r *Request) *bool) func(*Request, string) error {
	return func(r *Request, _ string) error { *flag(r) = true; return nil }
}

// act makes a setter for an option that asks for something else than a job,
// of which there can be one; help and version win over all.
func act(a Action) func(*Request, string) error {
	return func(r *Request, _ string) error {
		if r.Action != Run && r.Action != a && a != Help && a != Version {
			return errors.New("another option already asks for something else than a job: write one of them")
		}
		r.Action = a
		return nil
	}
}

// refuse makes a setter for what must not be ignored and cannot be done.
func refuse(why string) func(*Request, string) error {
	return func(*Request, string) error { return errors.New(why) }
}

// options is every option there is. docs/cli.md explains them, help.go shows
// the usual ones.
func options() []option {
	return slices.Concat(rankOptions, placeOptions, environOptions, outputOptions, endOptions, launchOptions,
		fabricOptions, srunOptions, otherOptions)
}

var rankOptions = []option{
	{names: "n np ntasks", takes: value, local: true,
		set: func(r *Request, v string) error { return SetCount(&r.now.Ranks, v, job.MaxRanks) }},
	{names: "ppn perhost npernode ntasks-per-node tasks-per-node processPerHost", takes: value,
		set: (*Request).setPerNode},
	{names: "hosts host hostlist H w nodelist", takes: value, many: true, local: true,
		set: func(r *Request, v string) error {
			e, err := hostlist.Inline(v)
			r.now.Hosts.Entries = append(r.now.Hosts.Entries, e...)
			return err
		}},
	{names: "hostfile f machinefile nodefile", takes: value, many: true, local: true,
		set: func(r *Request, v string) error {
			r.now.Hosts.Files = append(r.now.Hosts.Files, v)
			return fileName(&v, v)
		}},
	{names: "exclude", takes: value, many: true, set: func(r *Request, v string) error {
		e, err := hostlist.Inline(v)
		r.Exclude = append(r.Exclude, e...)
		return err
	}},
	{names: "spares", takes: value, set: func(r *Request, v string) error { return SetCount(&r.Spares, v, job.MaxNodes) }},
	{names: "min-nodes", takes: value,
		set: func(r *Request, v string) error { return SetCount(&r.MinNodes, v, job.MaxNodes) }},
	{names: "o", takes: value, set: func(r *Request, v string) (err error) {
		if r.Offset, err = strconv.ParseUint(v, 10, 32); err != nil {
			return fmt.Errorf("%s is not an offset in the slot list, a whole number from 0 on", Quote(v))
		}
		return nil
	}},
	{names: "nolocal", set: on(func(r *Request) *bool { return &r.NoLocal })},
	{names: "oversubscribe", set: on(func(r *Request) *bool { return &r.Oversubscribe })},
	{names: "configfile app", takes: value, set: func(r *Request, v string) error { return fileName(&r.configFile, v) }},
	{names: "dry-run show", set: act(DryRun)},
	{names: "doctor", set: act(ExamineNodes)},
	{names: "display", takes: value, many: true, set: display},
	{names: "verbose v", set: func(r *Request, _ string) error { r.Verbose++; r.Launch.Verbose = true; return nil }},
	{names: "quiet q", set: on(func(r *Request) *bool { return &r.Quiet })},
	{names: "help h", set: act(Help), last: true},
	{names: "version V", set: act(Version), last: true},
}

var environOptions = []option{
	{names: "x", takes: value, many: true, set: func(r *Request, v string) error { return r.Env.export(v) }},
	{names: "env", takes: pair, many: true, local: true,
		set: func(r *Request, v string) error { r.now.Sets = append(r.now.Sets, v); return validSet(v) }},
	{names: "genv", takes: pair, many: true,
		set: func(r *Request, v string) error { r.Env.Sets = append(r.Env.Sets, v); return validSet(v) }},
	{names: "envlist genvlist", takes: value,
		set: func(r *Request, v string) error { return r.Env.only(strings.Split(v, ",")) }},
	{names: "genvnone envnone", set: func(r *Request, _ string) error { return r.Env.only(nil) }},
	{names: "genvall envall", set: on(func(r *Request) *bool { return &r.Env.all })},
	{names: "export", takes: value, set: func(r *Request, v string) error { return r.Env.slurm(v) }},
	{names: "wdir wd D chdir cwd", takes: value, local: true, set: func(r *Request, v string) error {
		if v == "" {
			return errors.New("no directory is named")
		}
		r.now.Dir = v
		return nil
	}},
	{names: "bcast", takes: optional, set: refuse(noCopy)},
	{names: "preload-binary", set: refuse(noCopy)},
	{names: "preload-files", takes: value, set: refuse(noCopy)},
	{names: "mca gmca", takes: pair, many: true, set: (*Request).openMPI},
	{names: "allow-run-as-root"},
}

var outputOptions = []option{
	{names: "label l prepend-rank tag-output", set: on(func(r *Request) *bool { return &r.Label })},
	{names: "timestamp-output", set: on(func(r *Request) *bool { return &r.Timestamp })},
	{names: "output outfile-pattern", takes: value,
		set: func(r *Request, v string) error { return outFile(&r.Output.StdoutFile, v) }},
	{names: "error errfile-pattern", takes: value,
		set: func(r *Request, v string) error { return outFile(&r.Output.StderrFile, v) }},
	{names: "input", takes: value, set: func(r *Request, v string) error {
		if v == "all" || v == "none" || isNumber(v) {
			return r.setStdin(v) // srun's words for it
		}
		return pattern(&r.Output.StdinFile, v)
	}},
	{names: "stdin", takes: value, set: (*Request).setStdin},
	{names: "unbuffered u", set: on(func(r *Request) *bool { return &r.Output.Unbuffered })},
	{names: "merge-stderr-to-stdout", set: on(func(r *Request) *bool { return &r.Output.Merge })},
	{names: "pty", set: on(func(r *Request) *bool { return &r.Output.Terminal })},
	{names: "line-buffered", set: on(func(r *Request) *bool { return &r.Output.Lines })},
}

var endOptions = []option{
	{names: "timeout", takes: value, set: func(r *Request, v string) error { return SetDuration(&r.Timeout, v) }},
	{names: "launch-timeout", takes: value, set: func(r *Request, v string) error {
		if err := SetDuration(&r.Launch.Timeout, v); err != nil {
			return err
		}
		if r.Launch.Timeout == 0 {
			return errors.New("a session without time cannot start: write 15s")
		}
		return nil
	}},
	{names: "kill-on-bad-exit K", takes: optional, words: []string{"", "0", "1"},
		set: func(r *Request, v string) error {
			r.KillOnBad, r.killGiven = v != "0", true
			return nil
		}},
	{names: "keep-going", set: on(func(r *Request) *bool { return &r.KeepGoing })},
	{names: "on-failure", takes: value, words: []string{"end", "continue", "restart", "restart-all"},
		set: func(r *Request, v string) error {
			r.KeepGoing, r.Launch.RestartAll = r.KeepGoing || v == "continue", v == "restart-all"
			r.Launch.Restarts = v == "restart" || r.Launch.RestartAll
			return nil
		}},
	{names: "on-agent-loss", takes: value, words: []string{"end", "repair"},
		set: func(r *Request, v string) error {
			r.Launch.Repair, r.RepairAsked, r.lossGiven = v == "repair", v == "repair", true
			return nil
		}},
	{names: "max-restarts", takes: value, set: (*Request).setMaxRestarts},
	{names: "contain", set: on(func(r *Request) *bool { return &r.Launch.Contain })},
	{names: "hold", set: on(func(r *Request) *bool { return &r.Launch.Hold })},
	{names: "wait W", takes: value, set: func(r *Request, v string) error { return SetDuration(&r.Wait, v) }},
	{names: "kill-grace", takes: value, set: func(r *Request, v string) error { return SetDuration(&r.Launch.Grace, v) }},
	{names: "print-all-exitcodes", set: on(func(r *Request) *bool { return &r.AllCodes })},
}

var launchOptions = []option{
	{names: "launcher bootstrap", takes: value, set: (*Request).setLauncher},
	{names: "launcher-exec bootstrap-exec launch-agent remote-shell", takes: value, set: (*Request).setExec},
	{names: "ssh-args launcher-args", takes: value, many: true, set: (*Request).addArgs},
	{names: "ssh", takes: value, words: []string{"auto", "native", "exec"}, set: func(r *Request, v string) error {
		r.Launch.SSH = v
		return nil
	}},
	{names: "agent-path", takes: value, set: (*Request).setAgentPath},
	{names: "tree", takes: value, set: func(r *Request, v string) error {
		r.Tree = v
		if v == "kary" {
			return nil // finish asks for --fanout
		}
		_, err := tree.Parse(v)
		return err
	}},
	{names: "fanout treewidth branchfactor", takes: value, set: (*Request).setFanout},
	{names: "batch maxssh", takes: value, set: (*Request).setBatch},
	{names: "scalable-start hierarchical-start"},
	{names: "timing", set: on(func(r *Request) *bool { return &r.Timing })},
	{names: "trace", takes: value, set: func(r *Request, v string) error { return fileName(&r.Trace, v) }},
	{names: "report", takes: value, set: func(r *Request, v string) error {
		if page, ok := strings.CutSuffix(v, ".svg"); ok {
			return fmt.Errorf("SVG files were removed; hint: write --report %s.html", page)
		}
		return fileName(&r.Report, v)
	}},
	{names: "trace-events", takes: value,
		set: func(r *Request, v string) error { return fileName(&r.Launch.TraceEvents, v) }},
	{names: "record", takes: value, set: refuse(useTraceEvents)},
	{names: "replay", takes: value, set: refuse(useTraceEvents)},
	{names: "calibrate", set: act(PrintCosts)},
	{names: "no-preflight", set: func(r *Request, _ string) error { r.Preflight = false; return nil }},
	{names: "pmi-port", set: on(func(r *Request) *bool { return &r.PMIPort })},
	{names: "ccs-port", takes: value, set: (*Request).setCCSPort},
	{names: "ccs-auth", takes: value, set: func(r *Request, v string) error { return fileName(&r.CCSAuth, v) }},
	{names: "mpi", takes: value, set: (*Request).setMPI,
		words: []string{"auto", "mpich", "openmpi", "pmi", "pmi2", "pmix", "charm", "none"}},
}

func display(r *Request, v string) error {
	for _, w := range strings.Split(v, ",") {
		switch w {
		case "map":
			r.ShowMap = true
		case "allocation":
			r.ShowAlloc = true
		case "bind":
			r.Binding.Report = true
		case "topo":
			r.Binding.Topo = true
		default:
			return fmt.Errorf("%s is not known: write map, bind, allocation or topo", Quote(w))
		}
	}
	return nil
}

// SetCount parses v as a whole number from 1 to most and stores it in to.
func SetCount[N uint32 | uint64](to *N, v string, most uint64) error {
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil || n < 1 || n > most {
		return fmt.Errorf("%s is not a whole number from 1 to %d", Quote(v), most)
	}
	*to = N(n)
	return nil
}

// agree stores v in *to, unless v is zero. If an earlier option has stored a different value in *to, agree returns an
// error. Format is the format string of the error, and its arguments are v and the earlier value.
func agree[T comparable](to *T, v T, format string) error {
	var zero T
	if v == zero {
		return nil
	}
	if *to != zero && *to != v {
		return fmt.Errorf(format, v, *to)
	}
	*to = v
	return nil
}

// SetDuration parses v, such as 90 (seconds), 90s or 10m, and stores the result in to. It returns an error if v is
// negative or longer than ten years.
func SetDuration(to *time.Duration, v string) error {
	d, err := time.ParseDuration(v)
	if secs, err2 := strconv.ParseFloat(v, 64); err2 == nil {
		d, err = time.Duration(secs*float64(time.Second)), nil
	}
	if err != nil || d < 0 || d > 10*365*24*time.Hour {
		return fmt.Errorf("%s is not a time: write 90, 90s or 10m", Quote(v))
	}
	*to = d
	return nil
}
