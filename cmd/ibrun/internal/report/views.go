package report

import (
	"io"
	"os"
	"sync"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/tree"
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/cmd/ibrun/internal/plan"
	"ibrun/internal/exit"
	"ibrun/internal/job"
	"ibrun/internal/proc"
	"ibrun/internal/safefile"
)

// Views prints the timing of a launch (--timing) and writes the files of --trace and --report.
type Views struct {
	Launch *tree.Launch // times of the launch, valid after Finish; nil if no times are known

	request *cli.Request
	plan    *plan.Plan
	root    string // host of the root agent
	trace   *view
	page    *view
	line    func(format string, args ...any)
	shown   sync.WaitGroup
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
	if v.file, err = safefile.Create(name); err != nil {
		return nil, exit.Usagef("option %s: %s cannot be written: %v; name a file in a folder of yours", option, name,
			exit.Cause(err))
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

// OpenViews opens the files that r names for --trace and --report. Root is the host of the root agent. The function
// line prints one line for the user.
func OpenViews(r *cli.Request, p *plan.Plan, root string, line func(string, ...any)) (v *Views, err error) {
	v = &Views{request: r, plan: p, root: root, line: line}
	if v.trace, err = openView("--trace", r.Trace); err != nil {
		return nil, err
	}
	if v.page, err = openView("--report", r.Report); err != nil {
		v.trace.drop()
		return nil, err
	}
	return v, nil
}

// show shows a launch, once, without holding up the caller.
func (v *Views) show(times []job.NodeTimes, missing uint32, spares map[job.NodeIndex]string) {
	if v == nil || v.Launch != nil {
		return
	}
	v.Launch = v.plan.Timed(v.root, times, missing, spares)
	v.shown.Go(v.write)
}

func (v *Views) write() {
	if v.request.Timing {
		if s := v.Launch.Summarize(); v.request.Binding.Data {
			_ = s.JSON(proc.ConsoleWriter(os.Stderr)) // nobody is left to be told
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
	fill(v.trace, func(w io.Writer) error { return Trace(v.Launch, w) })
	fill(v.page, func(w io.Writer) error {
		_, err := io.WriteString(w, Page(v.Launch))
		return err
	})
}

// Finish shows a launch that was not completed as far as it came, and waits
// until all is written.
func (v *Views) Finish(o core.Outcome) {
	if len(o.Times) > 0 {
		v.show(o.Times, 0, nil)
	}
	v.shown.Wait()
	if v.Launch == nil {
		v.trace.drop()
		v.page.drop()
	}
}
