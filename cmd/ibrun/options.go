package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/tree"
	"ibrun/internal/cmdline"
	"ibrun/internal/hostlist"
	"ibrun/job"
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

const (
	noPMIx = "PMIx is not in this version yet; programs of Open MPI 4 do without it, others believe that they are alone"
	noCopy = "copying files to nodes is not in this version yet; put them where all nodes see them and leave the option out"
)

// Short names for the table.
const (
	nothing  = cmdline.Nothing
	value    = cmdline.Value
	pair     = cmdline.Pair
	optional = cmdline.Optional
)

// on makes a setter for an option without a value.
func on(flag func(r *request) *bool) func(*request, string) error {
	return func(r *request, _ string) error { *flag(r) = true; return nil }
}

// act makes a setter for an option that asks for something else than a job,
// of which there can be one; help and version win over all.
func act(a action) func(*request, string) error {
	return func(r *request, _ string) error {
		if r.action != run && r.action != a && a != help && a != version {
			return errors.New("another option already asks for something else than a job: write one of them")
		}
		r.action = a
		return nil
	}
}

// refuse makes a setter for what must not be ignored and cannot be done.
func refuse(why string) func(*request, string) error {
	return func(*request, string) error { return errors.New(why) }
}

// options is every option there is. docs/cli.md explains them, help.go shows
// the usual ones.
func options() []knob {
	return slices.Concat(rankOptions, placeOptions, environOptions, outputOptions, endOptions, launchOptions, fabricOptions, srunOptions, otherOptions, ptyOptions)
}

var rankOptions = []knob{
	{names: "n np ntasks", takes: value, local: true, set: func(r *request, v string) error { return count(&r.now.ranks, v, job.MaxRanks) }},
	{names: "ppn perhost npernode ntasks-per-node tasks-per-node processPerHost", takes: value, set: (*request).setPerNode},
	{names: "hosts host hostlist H w nodelist", takes: value, many: true, local: true, set: func(r *request, v string) error {
		e, err := hostlist.Inline(v)
		r.now.hosts.entries = append(r.now.hosts.entries, e...)
		return err
	}},
	{names: "hostfile f machinefile nodefile", takes: value, many: true, local: true, set: func(r *request, v string) error {
		if v == "" {
			return errors.New("no file is named")
		}
		r.now.hosts.files = append(r.now.hosts.files, v)
		return nil
	}},
	{names: "exclude", takes: value, many: true, set: func(r *request, v string) error {
		e, err := hostlist.Inline(v)
		r.exclude = append(r.exclude, e...)
		return err
	}},
	{names: "spares", takes: value, set: func(r *request, v string) error { return count(&r.spares, v, job.MaxNodes) }},
	{names: "min-nodes", takes: value, set: func(r *request, v string) error { return count(&r.minNodes, v, job.MaxNodes) }},
	{names: "o", takes: value, set: func(r *request, v string) (err error) {
		if r.offset, err = strconv.ParseUint(v, 10, 32); err != nil {
			return fmt.Errorf("%s is not an offset in the slot list, a whole number from 0 on", cmdline.Quote(v))
		}
		return nil
	}},
	{names: "nolocal", set: on(func(r *request) *bool { return &r.noLocal })},
	{names: "oversubscribe", set: on(func(r *request) *bool { return &r.crowd })},
	{names: "configfile app", takes: value, set: func(r *request, v string) error {
		if v == "" {
			return errors.New("no file is named")
		}
		r.configFile = v
		return nil
	}},
	{names: "dry-run show", set: act(dryRun)},
	{names: "doctor", set: act(examineNodes)},
	{names: "display", takes: value, many: true, set: display},
	{names: "verbose v", set: func(r *request, _ string) error { r.verbose++; r.launch.Verbose = true; return nil }},
	{names: "quiet q", set: on(func(r *request) *bool { return &r.quiet })},
	{names: "help h", set: act(help), last: true},
	{names: "version V", set: act(version), last: true},
}

var environOptions = []knob{
	{names: "x", takes: value, many: true, set: func(r *request, v string) error { return r.env.export(v) }},
	{names: "env", takes: pair, many: true, local: true, set: func(r *request, v string) error { r.now.sets = append(r.now.sets, v); return validSet(v) }},
	{names: "genv", takes: pair, many: true, set: func(r *request, v string) error { r.env.sets = append(r.env.sets, v); return validSet(v) }},
	{names: "envlist genvlist", takes: value, set: func(r *request, v string) error { return r.env.only(strings.Split(v, ",")) }},
	{names: "genvnone envnone", set: func(r *request, _ string) error { return r.env.only(nil) }},
	{names: "genvall envall", set: on(func(r *request) *bool { return &r.env.all })},
	{names: "export", takes: value, set: func(r *request, v string) error { return r.env.slurm(v) }},
	{names: "wdir wd D chdir cwd", takes: value, local: true, set: func(r *request, v string) error {
		if v == "" {
			return errors.New("no directory is named")
		}
		r.now.dir = v
		return nil
	}},
	{names: "bcast", takes: optional, set: refuse(noCopy)},
	{names: "preload-binary", set: refuse(noCopy)},
	{names: "preload-files", takes: value, set: refuse(noCopy)},
	{names: "mca gmca", takes: pair, many: true, set: (*request).openMPI},
	{names: "allow-run-as-root"},
}

var outputOptions = []knob{
	{names: "label l prepend-rank tag-output", set: on(func(r *request) *bool { return &r.label })},
	{names: "timestamp-output", set: on(func(r *request) *bool { return &r.timestamp })},
	{names: "output outfile-pattern", takes: value, set: func(r *request, v string) error { return outFile(&r.output.StdoutFile, v) }},
	{names: "error errfile-pattern", takes: value, set: func(r *request, v string) error { return outFile(&r.output.StderrFile, v) }},
	{names: "input", takes: value, set: func(r *request, v string) error {
		if v == "all" || v == "none" || isNumber(v) {
			return r.setStdin(v) // srun's words for it
		}
		return pattern(&r.output.StdinFile, v)
	}},
	{names: "stdin", takes: value, set: (*request).setStdin},
	{names: "unbuffered u", set: on(func(r *request) *bool { return &r.output.Unbuffered })},
	{names: "merge-stderr-to-stdout", set: on(func(r *request) *bool { return &r.output.Merge })},
}

var endOptions = []knob{
	{names: "timeout", takes: value, set: func(r *request, v string) error { return span(&r.timeout, v) }},
	{names: "launch-timeout", takes: value, set: func(r *request, v string) error {
		if err := span(&r.launch.Timeout, v); err != nil {
			return err
		}
		if r.launch.Timeout == 0 {
			return errors.New("a session without time cannot start: write 15s")
		}
		return nil
	}},
	{names: "kill-on-bad-exit K", takes: optional, words: []string{"", "0", "1"}, set: func(r *request, v string) error {
		r.killOnBad, r.killGiven = v != "0", true
		return nil
	}},
	{names: "keep-going", set: on(func(r *request) *bool { return &r.keepGoing })},
	{names: "wait W", takes: value, set: func(r *request, v string) error { return span(&r.wait, v) }},
	{names: "kill-grace", takes: value, set: func(r *request, v string) error { return span(&r.launch.Grace, v) }},
	{names: "print-all-exitcodes", set: on(func(r *request) *bool { return &r.allCodes })},
}

var launchOptions = []knob{
	{names: "launcher bootstrap", takes: value, set: (*request).setLauncher},
	{names: "launcher-exec bootstrap-exec launch-agent remote-shell", takes: value, set: (*request).setExec},
	{names: "ssh-args launcher-args", takes: value, many: true, set: (*request).addArgs},
	{names: "ssh", takes: value, words: []string{"auto", "native", "exec"}, set: func(r *request, v string) error {
		r.launch.SSH = v
		return nil
	}},
	{names: "agent-path", takes: value, set: func(r *request, v string) error { r.launch.AgentPath = v; return remote.CheckAgentPath(v) }},
	{names: "tree", takes: value, set: func(r *request, v string) error {
		r.tree = v
		if v == "kary" {
			return nil // finish asks for --fanout
		}
		_, err := tree.Parse(v)
		return err
	}},
	{names: "fanout treewidth branchfactor", takes: value, set: func(r *request, v string) error { return r.setFanout(v) }},
	{names: "batch maxssh", takes: value, set: (*request).setBatch},
	{names: "scalable-start hierarchical-start"},
	{names: "timing", set: on(func(r *request) *bool { return &r.timing })},
	{names: "trace", takes: value, set: func(r *request, v string) error { return fileName(&r.trace, v) }},
	{names: "report", takes: value, set: func(r *request, v string) error { return fileName(&r.report, v) }},
	{names: "calibrate", set: act(printCosts)},
	{names: "no-preflight", set: func(r *request, _ string) error { r.preflight = false; return nil }},
	{names: "pmi-port", set: on(func(r *request) *bool { return &r.pmiPort })},
	{names: "mpi", takes: value, words: mpiWords, set: (*request).setMPI},
}

func display(r *request, v string) error {
	for _, w := range strings.Split(v, ",") {
		switch w {
		case "map":
			r.showMap = true
		case "allocation":
			r.showAlloc = true
		case "bind":
			r.binding.Report = true
		case "topo":
			r.binding.Topo = true
		default:
			return fmt.Errorf("%s is not known: write map, bind, allocation or topo", cmdline.Quote(w))
		}
	}
	return nil
}

func count(to *uint64, v string, most uint64) error {
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil || n < 1 || n > most {
		return fmt.Errorf("%s is not a whole number from 1 to %d", cmdline.Quote(v), most)
	}
	*to = n
	return nil
}

// span reads 90, 90s or 10m.
func span(to *time.Duration, v string) error {
	d, err := time.ParseDuration(v)
	if secs, err2 := strconv.ParseFloat(v, 64); err2 == nil {
		d, err = time.Duration(secs*float64(time.Second)), nil
	}
	if err != nil || d < 0 || d > 10*365*24*time.Hour {
		return fmt.Errorf("%s is not a time: write 90, 90s or 10m", cmdline.Quote(v))
	}
	*to = d
	return nil
}
