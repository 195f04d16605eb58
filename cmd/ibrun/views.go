package main

import (
	"io"
	"os"
	"strings"
	"sync"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/timing"
	"ibrun/internal/exit"
	"ibrun/internal/owned"
	"ibrun/job"
)

// views is how the user wants to see a launch: --timing, --trace, --report.
type views struct {
	plan   *plan
	root   string // this host
	timing bool
	json   bool
	trace  *view
	page   *view
	line   func(format string, args ...any)
	seen   *timing.Launch // nil until the launch is over
	shown  sync.WaitGroup
}

// view is a file that is open from before the job, so that nothing starts for a
// picture that cannot be kept.
type view struct {
	name  string // as the user has written it
	file  *os.File
	fresh bool // there was none before
}

// openView opens a file for what is to come; what it holds stays until then.
func openView(option, name string) (*view, error) {
	if name == "" {
		return nil, nil
	}
	_, err := os.Stat(name)
	v := &view{name: name, fresh: os.IsNotExist(err)}
	if v.file, err = owned.Create(name); err != nil {
		return nil, exit.Usagef("option %s: %s cannot be written: %v; name a file in a folder of yours", option, name, exit.Cause(err))
	}
	return v, nil
}

// fill replaces what the file holds.
func (v *view) fill(write func(io.Writer) error) error {
	_ = v.file.Truncate(0) // a pipe or a device has nothing to lose
	if err := write(v.file); err != nil {
		return err
	}
	return v.file.Close()
}

// drop takes an empty file away that was made for nothing.
func (v *view) drop() {
	if v == nil {
		return
	}
	if v.fresh {
		_ = os.Remove(v.file.Name())
	}
	v.file.Close()
}

// newViews opens what the request names.
func newViews(r *request, p *plan, root string, line func(string, ...any)) (v *views, err error) {
	v = &views{plan: p, root: root, timing: r.timing, json: r.binding.Data, line: line}
	if v.trace, err = openView("--trace", r.trace); err != nil {
		return nil, err
	}
	if v.page, err = openView("--report", r.report); err != nil {
		v.trace.drop()
		return nil, err
	}
	return v, nil
}

// show shows a launch, once, without holding up the caller.
func (v *views) show(times []job.NodeTimes, missing uint32, spares map[uint32]string) {
	if v == nil || v.seen != nil {
		return
	}
	v.seen = v.plan.timed(v.root, times, missing, spares)
	v.shown.Go(v.write)
}

func (v *views) write() {
	if v.timing {
		if s := v.seen.Summarize(); v.json {
			_ = s.JSON(os.Stderr) // nobody is left to be told
		} else {
			s.Text(v.line)
		}
	}
	fill := func(of *view, write func(io.Writer) error) {
		if of == nil {
			return
		}
		if err := of.fill(write); err != nil {
			v.line("%s could not be written: %v", of.name, exit.Cause(err))
		}
	}
	fill(v.trace, v.seen.Trace)
	fill(v.page, func(w io.Writer) error {
		text := v.seen.Page
		if strings.HasSuffix(v.page.name, ".svg") {
			text = v.seen.Picture
		}
		_, err := io.WriteString(w, text())
		return err
	})
}

// finish shows a launch that was not completed as far as it came, and waits
// until all is written.
func (v *views) finish(o core.Outcome) {
	if len(o.Times) > 0 {
		v.show(o.Times, 0, nil)
	}
	v.shown.Wait()
	if v.seen == nil {
		v.trace.drop()
		v.page.drop()
	}
}

// timed gives the nodes of a launch their names. A spare that is up stands where
// the node stood whose seat it has.
func (p *plan) timed(root string, times []job.NodeTimes, missing uint32, spares map[uint32]string) *timing.Launch {
	l := &timing.Launch{
		Root: root, Launcher: launcherName(p.job.Launch), Agents: p.nodes.Len(), Ranks: int(p.job.Size), Missing: int(missing),
		Shape: p.shape, Source: p.source,
	}
	for _, t := range times {
		host := p.nodes.At(int(t.Node)).Host
		if spare, ok := spares[t.Node]; ok && t.At[job.Launched] != job.Never {
			host = spare
		}
		l.Nodes = append(l.Nodes, timing.Node{Host: host, NodeTimes: t})
	}
	return l
}

// launcherName is by what sessions are made, as far as it matters for their cost.
func launcherName(how job.Launch) string {
	switch {
	case len(how.Exec) > 0:
		return strings.Join(how.Exec, " ")
	case how.Launcher == "ssh" && how.SSH == "exec":
		return "ssh as a program"
	}
	return how.Launcher
}

func (r *request) wantsViews() bool { return r.timing || r.trace != "" || r.report != "" }

// checkViews finds what cannot go together.
func (r *request) checkViews() error {
	if r.trace != "" && r.trace == r.report {
		return exit.Usagef("--trace and --report both write %s: name two files", r.trace)
	}
	return nil
}
