package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/tree"
	"ibrun/internal/hostlist"
	"ibrun/job"
)

// charm names Charm++ options whose plain name means something else here.
var charm = map[string]string{"p": "np", "nodelist": "hostfile", "ppn": "cpus-per-task", "timeout": "launch-timeout"}

// refused are options that mean different things elsewhere, or that belong to
// a resource manager.
var refused = map[string]string{
	"N": "it means nodes in srun and ranks per node in mpirun; write -ppn for ranks per node, or name the hosts with --hosts",
	"t": "it means minutes in srun and seconds elsewhere; write --timeout 90s or --timeout 10m",
	"p": "it is the resource manager's; give it to salloc or sbatch, or write -n for ranks",
	"A": "it is the resource manager's; give it to salloc or sbatch",
	"s": "write --stdin, or give it to the resource manager",
	"i": "write --input FILE, or --stdin RANK",
	"e": "write --error FILE",
	"g": "write -genv NAME VALUE",
}

const (
	noBinding = "binding and placement are not in this version yet; ranks run where the node's kernel puts them"
	noFabric  = "there is no fabric in this version yet; programs use their own"
	noCopy    = "copying files to nodes is not in this version yet; the program must be on the nodes"
)

// optionTable is every option there is. docs/cli.md explains them, help.go
// shows the usual ones.
func optionTable() []option {
	return []option{
		{names: "n np ntasks", takes: value, set: func(r *request, v string) error {
			if r.now.ranks > 0 {
				return fmt.Errorf("the number of ranks is given twice")
			}
			return count(&r.now.ranks, v, job.MaxRanks)
		}},
		{names: "ppn perhost npernode ntasks-per-node tasks-per-node processPerHost", takes: value,
			set: func(r *request, v string) error { return count(&r.now.perNode, v, job.MaxRanks) }},
		{names: "c cpus-per-task cores-per-task", takes: value, later: noBinding,
			set: func(_ *request, v string) error { var n uint64; return count(&n, v, 1<<16) }},
		{names: "hosts host hostlist H w nodelist", takes: value, set: func(r *request, v string) error {
			e, err := hostlist.Inline(v)
			r.hosts = append(r.hosts, e...)
			return err
		}},
		{names: "hostfile f machinefile nodefile", takes: value, set: func(r *request, v string) error {
			r.hostFiles = append(r.hostFiles, v)
			return nil
		}},
		{names: "exclude", takes: value, set: func(r *request, v string) error {
			e, err := hostlist.Inline(v)
			r.exclude = append(r.exclude, e...)
			return err
		}},
		{names: "o", takes: value, set: func(r *request, v string) (err error) {
			if r.offset, err = strconv.ParseUint(v, 10, 32); err != nil {
				return fmt.Errorf("%q is not an offset in the slot list, a whole number from 0 on", v)
			}
			return nil
		}},

		{names: "map-by rank-by cpu-bind m distribution", takes: value, later: noBinding},
		{names: "bind-to", takes: value, set: func(r *request, v string) error {
			word, _, _ := strings.Cut(v, ":")
			if !slices.Contains([]string{"none", "hwthread", "core", "l3cache", "numa", "socket", "package", "auto"}, word) {
				return fmt.Errorf("%q is not known: write none, hwthread, core, l3cache, numa, socket, package or auto", v)
			}
			if word != "none" {
				r.warn("--bind-to: %s", noBinding)
			}
			return nil
		}},
		{names: "oversubscribe allow-run-as-root scalable-start hierarchical-start"},
		{names: "nolocal report-bindings", later: noBinding},
		{names: "display", takes: value, set: display},
		{names: "display-map", set: func(r *request, _ string) error { r.showMap = true; return nil }},

		{names: "dry-run show", set: func(r *request, _ string) error { r.action = dryRun; return nil }},
		{names: "verbose v", set: func(r *request, _ string) error { r.verbose++; r.launch.Verbose = true; return nil }},
		{names: "quiet q", set: func(r *request, _ string) error { r.quiet = true; return nil }},
		{names: "help h", set: func(r *request, _ string) error { r.action = help; return nil }},
		{names: "version V", set: func(r *request, _ string) error { r.action = version; return nil }},

		{names: "x", takes: value, set: func(r *request, v string) error { return r.env.export(v) }},
		{names: "env", takes: two, set: func(r *request, v string) error { r.now.sets = append(r.now.sets, v); return validSet(v) }},
		{names: "genv", takes: two, set: func(r *request, v string) error { r.env.sets = append(r.env.sets, v); return validSet(v) }},
		{names: "envlist genvlist", takes: value, set: func(r *request, v string) error { return r.env.only(strings.Split(v, ",")) }},
		{names: "genvnone envnone", set: func(r *request, _ string) error { return r.env.only(nil) }},
		{names: "genvall envall", set: func(r *request, _ string) error { r.env.all = true; return nil }},
		{names: "export", takes: value, set: func(r *request, v string) error { return r.env.slurm(v) }},

		{names: "wdir wd D chdir cwd", takes: value, set: func(r *request, v string) error { r.now.dir = v; return nil }},
		{names: "bcast", takes: optional, later: noCopy},
		{names: "preload-binary", later: noCopy},
		{names: "preload-files", takes: value, later: noCopy},

		{names: "label l prepend-rank tag-output", set: func(r *request, _ string) error { r.label = true; return nil }},
		{names: "timestamp-output", set: func(r *request, _ string) error { r.timestamp = true; return nil }},
		{names: "output outfile-pattern", takes: value, set: func(r *request, v string) error { return pattern(&r.output.StdoutFile, v) }},
		{names: "error errfile-pattern", takes: value, set: func(r *request, v string) error { return pattern(&r.output.StderrFile, v) }},
		{names: "input", takes: value, set: func(r *request, v string) error { return pattern(&r.output.StdinFile, v) }},
		{names: "stdin", takes: value, set: func(r *request, v string) error {
			if _, err := strconv.ParseUint(v, 10, 32); err != nil && v != "all" && v != "none" {
				return fmt.Errorf("%q is not known: write a rank, all or none", v)
			}
			r.stdin = v
			return nil
		}},
		{names: "unbuffered u", set: func(r *request, _ string) error { r.output.Unbuffered = true; return nil }},
		{names: "merge-stderr-to-stdout", set: func(r *request, _ string) error { r.output.Merge = true; return nil }},

		{names: "timeout", takes: value, set: func(r *request, v string) error { return span(&r.timeout, v) }},
		{names: "launch-timeout", takes: value, set: func(r *request, v string) error { return span(&r.launch.Timeout, v) }},
		{names: "kill-on-bad-exit K", takes: optional, set: func(r *request, v string) error {
			if v != "" && v != "0" && v != "1" {
				return fmt.Errorf("%q is neither 0 nor 1", v)
			}
			r.killOnBad = v != "0"
			return nil
		}},
		{names: "keep-going", set: func(r *request, _ string) error { r.killOnBad = false; return nil }},
		{names: "wait W", takes: value, set: func(r *request, v string) error { return span(&r.wait, v) }},
		{names: "kill-grace", takes: value, set: func(r *request, v string) error { return span(&r.launch.Grace, v) }},
		{names: "print-all-exitcodes", set: func(r *request, _ string) error { r.allCodes = true; return nil }},

		{names: "launcher bootstrap rmk", takes: value, set: func(r *request, v string) error {
			if v == "fork" {
				v = "local"
			}
			if !slices.Contains([]string{"ssh", "rsh", "local"}, v) {
				return fmt.Errorf("%q is not in this version: write ssh, rsh or local, or give a command with --launcher-exec", v)
			}
			r.launch.Launcher = v
			return nil
		}},
		{names: "launcher-exec bootstrap-exec launch-agent remote-shell", takes: value, set: func(r *request, v string) error {
			r.launch.Exec = strings.Fields(v)
			if len(r.launch.Exec) == 0 {
				return fmt.Errorf("no command")
			}
			return nil
		}},
		{names: "ssh-args launcher-args", takes: value, set: func(r *request, v string) (err error) {
			r.launch.Args, err = splitWords(v)
			return err
		}},
		{names: "agent-path", takes: value, set: func(r *request, v string) error { r.launch.AgentPath = v; return remote.CheckAgentPath(v) }},
		{names: "tree", takes: value, set: func(r *request, v string) error { _, err := tree.Parse(v); r.tree = v; return err }},
		{names: "fanout treewidth branchfactor", takes: value, set: func(r *request, v string) error {
			r.tree = "kary:" + v
			_, err := tree.Parse(r.tree)
			return err
		}},
		{names: "batch maxssh", takes: value, set: func(r *request, v string) error {
			var n uint64
			err := count(&n, v, 1<<16)
			r.launch.Batch = uint32(n)
			return err
		}},
		{names: "no-preflight", set: func(r *request, _ string) error { r.preflight = false; return nil }},

		{names: "fabric", takes: value, set: func(r *request, v string) error {
			if !slices.Contains([]string{"auto", "ib", "udp", "tcp"}, v) {
				return fmt.Errorf("%q is not known: write auto, ib, udp or tcp", v)
			}
			if v != "auto" {
				r.warn("--fabric: %s", noFabric)
			}
			return nil
		}},
		{names: "lazy", takes: optional, later: noFabric},
		{names: "eager", later: noFabric},
		{names: "iface hca", takes: value, later: noFabric},
		{names: "mpi", takes: value, later: "PMI is not in this version yet; MPI programs believe that they are alone"},

		{names: "mca", takes: two, set: func(r *request, _ string) error {
			r.warn("--mca is Open MPI's: taken and ignored")
			return nil
		}},
		{names: "configfile", takes: value, set: func(r *request, v string) error { return r.readConfig(v) }},
	}
}

func display(r *request, v string) error {
	for _, w := range strings.Split(v, ",") {
		switch w {
		case "map", "allocation":
			r.showMap = true
		case "bind", "topo":
			r.warn("--display %s: %s", w, noBinding)
		default:
			return fmt.Errorf("%q is not known: write map, bind, allocation or topo", w)
		}
	}
	return nil
}

// readConfig puts the programs of a file, one a line, in place of the option.
func (r *request) readConfig(name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	r.configFile = name
	for i, line := range strings.Split(string(b), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		words, err := splitWords(line)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		sub, err := parse(words)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		r.segments = append(r.segments, sub.segments...)
		r.hosts = append(r.hosts, sub.hosts...)
		r.warnings = append(r.warnings, sub.warnings...)
	}
	return nil
}

func count(to *uint64, v string, most uint64) error {
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil || n < 1 || n > most {
		return fmt.Errorf("%q is not a whole number from 1 to %d", v, most)
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
		return fmt.Errorf("%q is not a time: write 90, 90s or 10m", v)
	}
	*to = d
	return nil
}

// pattern checks the pattern of a per-rank file.
func pattern(to *string, v string) error {
	for i := 0; i < len(v); i++ {
		if v[i] != '%' {
			continue
		}
		if i++; i == len(v) || !strings.ContainsRune("rhtj%", rune(v[i])) {
			return fmt.Errorf("file pattern %q: after %% stands r, h, t, j or %%", v)
		}
	}
	if v == "" || strings.IndexByte(v, 0) >= 0 {
		return fmt.Errorf("file pattern %q names no file", v)
	}
	*to = v
	return nil
}
