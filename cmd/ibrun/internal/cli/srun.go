package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"ibrun/internal/job"
)

// srunOptions are those of srun that mean something without Slurm, or that do no harm.
var srunOptions = []option{
	{names: "nodes", takes: value, set: func(r *Request, v string) (err error) {
		r.Nodes, err = nodeRange(v)
		return err
	}},
	{names: "N", takes: value, set: func(r *Request, v string) (err error) {
		r.NodesOrPerNode, err = nodeRange(v)
		return err
	}},
	{names: "time", takes: value, set: func(r *Request, v string) error {
		limit, err := slurmTime(v)
		if err == nil && r.Timeout != 0 && r.Timeout != limit {
			err = fmt.Errorf("%s contradicts --timeout", Quote(v))
		}
		r.Timeout = limit
		return err
	}},
	{names: "job-name J", takes: value, set: func(r *Request, v string) error {
		if v == "" || strings.ContainsAny(v, "/\x00") {
			return fmt.Errorf("%s is no name for a job", Quote(v))
		}
		r.JobName = v
		return nil
	}},
	{names: "multi-prog", local: true, set: on(func(r *Request) *bool { return &r.now.Multi })},
	{names: "mem mem-per-cpu", takes: value, set: func(_ *Request, v string) error { return memorySize(v) }},
	{names: "exclusive", takes: optional, words: []string{"", "user", "mcs", "topo"}},
}

// NodeSpan is how many nodes a job is to have; most is 0 for no number.
type NodeSpan struct{ Least, Most uint64 }

// nodeRange reads 4 or 2-4.
func nodeRange(v string) (n NodeSpan, err error) {
	least, most, span := strings.Cut(v, "-")
	if err := SetCount(&n.Least, least, job.MaxNodes); err != nil {
		return n, err
	}
	if n.Most = n.Least; span {
		err = SetCount(&n.Most, most, job.MaxNodes)
	}
	if err == nil && n.Most < n.Least {
		err = fmt.Errorf("%s is not a range of numbers", Quote(v))
	}
	return n, err
}

// slurmTime reads srun's ways to write a time: minutes, minutes:seconds, hours:minutes:seconds,
// days-hours, days-hours:minutes, days-hours:minutes:seconds. Without a limit it is 0.
func slurmTime(v string) (time.Duration, error) {
	switch strings.ToLower(v) {
	case "infinite", "unlimited":
		return 0, nil
	}
	days, rest, hasDays := strings.Cut(v, "-")
	units := []time.Duration{time.Hour, time.Minute, time.Second}
	if !hasDays {
		days, rest = "0", v
		switch strings.Count(v, ":") {
		case 0:
			units = units[1:2]
		case 1:
			units = units[1:]
		}
	}
	parts := append([]string{days}, strings.Split(rest, ":")...)
	units = append([]time.Duration{24 * time.Hour}, units...)
	total := time.Duration(0)
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil || i >= len(units) {
			return 0, fmt.Errorf("%s is not a time of srun's: write 10 (minutes), 1:30:00 or 1-12 (days-hours)",
				Quote(v))
		}
		total += time.Duration(n) * units[i]
	}
	return total, nil
}

// memorySize checks srun's way to write memory. It is the manager's to give: here it means nothing.
func memorySize(v string) error {
	digits := strings.TrimRight(v, "KMGTkmgt")
	if !isNumber(digits) || len(v)-len(digits) > 1 {
		return fmt.Errorf("%s is not an amount of memory: write 512M or 4G", Quote(v))
	}
	return nil
}
