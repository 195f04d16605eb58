package cli

import (
	"fmt"
	"strings"

	"ibrun/internal/job"
)

// short are options without a value that stand for another one and its value.
var short = map[string][2]string{
	"pernode": {"npernode", "1"}, "bynode": {"map-by", "node"}, "byslot": {"map-by", "slot"},
	"display-allocation": {"display", "allocation"}, "display-map": {"display", "map"},
}

// otherOptions are those of mpirun and hydra that have no like here.
var otherOptions = []option{
	{names: "nooversubscribe", set: on(func(r *Request) *bool { return &r.NoOversubscribe })},
	{names: "rankfile rf", takes: value, set: func(r *Request, v string) error { return fileName(&r.RankFile, v) }},
	{names: "output-filename", takes: value, set: setOutputDir},
	{names: "prepend-pattern", takes: value, set: setPrefix},
	{names: "rmk", takes: value,
		words: []string{"user", "none", "slurm", "pbs", "lsf", "sge", "ll", "cobalt", "oar", "flux", "pals"},
		set: func(r *Request, v string) error {
			r.Manager = v
			return nil
		}},
	{names: "no-allocation", set: on(func(r *Request) *bool { return &r.NoAllocation })},
	{names: "shared-steps", set: on(func(r *Request) *bool { return &r.SharedSteps })},
}

// setPrefix takes hydra's pattern for the beginning of each line.
func setPrefix(r *Request, v string) error {
	if strings.ContainsAny(v, "\n\x00") || v == "" {
		return fmt.Errorf("%s cannot begin a line", Quote(v))
	}
	_, err := job.Expand(v,
		func(letter byte, _ int) (string, bool) { return "", strings.IndexByte("rghpt", letter) >= 0 })
	if err != nil {
		return fmt.Errorf("pattern %s: %w: after %% stands r, h, p, g, t or %%", Quote(v), err)
	}
	r.Prefix = v
	return nil
}

// OutputDir is --output-filename DIR, with mpirun's words behind a colon.
type OutputDir struct {
	Name  string
	NoJob bool // the files are not below a folder for the job
	Alone bool // what ranks print goes there only
}

func setOutputDir(r *Request, v string) error {
	d := OutputDir{Name: v}
	if i := strings.LastIndexByte(v, ':'); i >= 0 {
		d.Name = v[:i]
		for w := range strings.SplitSeq(v[i+1:], ",") {
			switch w {
			case "nojobid":
				d.NoJob = true
			case "nocopy":
				d.Alone = true
			case "jobid", "copy":
			default:
				return fmt.Errorf("%s is not known: write DIR, DIR:nojobid or DIR:nocopy", Quote(w))
			}
		}
	}
	r.OutputDir = d
	return fileName(&d.Name, d.Name)
}
