package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ibrun/internal/cmdline"
	"ibrun/internal/exit"
	"ibrun/internal/hostlist"
	"ibrun/internal/plural"
	"ibrun/internal/rankfile"
	"ibrun/internal/textfile"
	"ibrun/job"
)

// short are options without a value that stand for another one and its value.
var short = map[string][2]string{
	"pernode": {"npernode", "1"}, "bynode": {"map-by", "node"}, "byslot": {"map-by", "slot"},
	"display-allocation": {"display", "allocation"}, "display-map": {"display", "map"},
}

// otherOptions are those of mpirun and hydra that have no like here.
var otherOptions = []knob{
	{names: "nooversubscribe", set: on(func(r *request) *bool { return &r.strict })},
	{names: "rankfile rf", takes: value, set: func(r *request, v string) error { return fileName(&r.rankFile, v) }},
	{names: "output-filename", takes: value, set: setOutputDir},
	{names: "prepend-pattern", takes: value, set: setPrefix},
	{names: "rmk", takes: value, words: []string{"user", "none", "slurm", "pbs", "lsf", "sge", "ll", "cobalt", "oar", "flux", "pals"}, set: func(r *request, v string) error {
		r.manager = v
		return nil
	}},
}

// setPrefix takes hydra's pattern for the beginning of each line.
func setPrefix(r *request, v string) error {
	if strings.ContainsAny(v, "\n\x00") || v == "" {
		return fmt.Errorf("%s cannot begin a line", cmdline.Quote(v))
	}
	_, err := job.Expand(v, func(letter byte, _ int) (string, bool) { return "", strings.IndexByte("rghpt", letter) >= 0 })
	if err != nil {
		return fmt.Errorf("pattern %s: %w: after %% stands r, h, p, g, t or %%", cmdline.Quote(v), err)
	}
	r.prefix = v
	return nil
}

// outputDir is --output-filename DIR, with mpirun's words behind a colon.
type outputDir struct {
	name  string
	noJob bool // the files are not below a folder for the job
	alone bool // what ranks print goes there only
}

func setOutputDir(r *request, v string) error {
	d := outputDir{name: v}
	if name, words, ok := cutLast(v, ":"); ok {
		d.name = name
		for _, w := range strings.Split(words, ",") {
			switch w {
			case "nojobid":
				d.noJob = true
			case "nocopy":
				d.alone = true
			case "jobid", "copy":
			default:
				return fmt.Errorf("%s is not known: write DIR, DIR:nojobid or DIR:nocopy", cmdline.Quote(w))
			}
		}
	}
	r.outputDir = d
	return fileName(&d.name, d.name)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// output is the job's streams: the request's, with what only the plan can tell. srun's %x is the
// name of the job. mpirun's folder has a folder for each rank, whose number has as many digits as
// the largest one.
func (p *plan) output(r *request, cwd string) job.Output {
	out := r.output
	if dir := r.outputDir; dir.name != "" {
		dir.name = percent(absolute(dir.name, cwd))
		if !dir.noJob {
			dir.name = filepath.Join(dir.name, "1")
		}
		digits := len(strconv.FormatUint(uint64(p.job.Size-1), 10))
		dir.name = filepath.Join(dir.name, fmt.Sprintf("rank.%%%dr", digits))
		out.StdoutFile, out.StderrFile = filepath.Join(dir.name, "stdout"), filepath.Join(dir.name, "stderr")
		if out.Merge {
			out.StderrFile = ""
		}
		out.Dirs, out.Copy = true, !dir.alone
	}
	name := r.jobName
	if name == "" {
		name = filepath.Base(r.segments[0].argv[0])
	}
	for _, file := range []*string{&out.StdoutFile, &out.StderrFile, &out.StdinFile} {
		*file = job.Fill(*file, 'x', name)
	}
	return out
}

// percent makes text a pattern that stands for itself.
func percent(text string) string { return strings.ReplaceAll(text, "%", "%%") }

// readRanks reads the rank file, and makes a list of its hosts, for those who name no other.
func (r *request) readRanks() (places []rankfile.Entry, hosts hostList, err error) {
	if r.rankFile == "" {
		return nil, r.hosts, nil
	}
	content, err := textfile.Read(r.rankFile)
	if err != nil {
		return nil, hosts, exit.Usagef("rank file %v", err)
	}
	if places, err = rankfile.File(r.rankFile, content); err != nil {
		return nil, hosts, exit.With(exit.Usage, err)
	}
	if r.hosts.named() {
		return places, r.hosts, nil
	}
	for _, e := range places {
		if e.Host == "" {
			return nil, hosts, exit.Usagef("%s: +n%d is a host of a list: name one with --hosts", r.rankFile, e.Index)
		}
		one, err := hostlist.Inline(e.Host)
		if err != nil {
			return nil, hosts, exit.Usagef("%s: %v", r.rankFile, err)
		}
		if !slices.Contains(hosts.entries, one[0]) {
			hosts.entries = append(hosts.entries, one...)
		}
	}
	return places, hosts, nil
}

// spreadRanks puts each rank where the rank file says; of more lines than ranks the first count.
func (p *plan) spreadRanks(r *request, from allocation, ranks uint64) error {
	if ranks == 0 {
		ranks = uint64(len(from.places))
	}
	if ranks > uint64(len(from.places)) {
		return fmt.Errorf("%s names %s: write -n %d or less", r.rankFile, plural.Of(len(from.places), "rank"), len(from.places))
	}
	at := make([]uint32, ranks)
	for rank, e := range from.places[:ranks] {
		i := e.Index
		if e.Host != "" {
			i = from.all.Index(e.Host)
		}
		if i < 0 || i >= from.all.Len() {
			return fmt.Errorf("%s: rank %d: no such host in the list: %s", r.rankFile, rank, cmp.Or(e.Host, fmt.Sprintf("+n%d", e.Index)))
		}
		at[rank] = uint32(i)
		p.slots = append(p.slots, e.Slots)
	}
	p.nodes, p.layout = job.PlaceAt(from.all, at)
	return nil
}
