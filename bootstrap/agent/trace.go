package agent

import (
	"os"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/trace"
	"ibrun/internal/exit"
	"ibrun/internal/safefile"
)

// tracer writes the events and effects of this agent to a file. Each step is written at once, so that the file
// is complete up to the end of an agent that is killed. A nil tracer does nothing.
type tracer struct {
	file *os.File
	text []byte
}

// startTrace opens a file for the trace. What it contains is replaced. An error has the name that is given.
func (l *loop) startTrace(path, name string) error {
	file, err := safefile.Create(path)
	if err != nil {
		return exit.Usagef("option --trace-events: %s cannot be written: %v", name, exit.Cause(err))
	}
	_ = file.Truncate(0) // a pipe or a device has nothing to lose
	l.tracer = &tracer{file: file}
	return nil
}

// traceNode starts the trace of the agent of a node. If it cannot be written, the job goes on. The warning does not
// name the host, because ibrun prints equal warnings of several nodes once.
func (l *loop) traceNode(path, host string) {
	if path == "" {
		return
	}
	if err := l.startTrace(path+"."+host, path+".HOST"); err != nil {
		l.warn(err.Error())
	}
}

func (t *tracer) add(now time.Duration, ev core.Event, effects []core.Effect) {
	if t == nil {
		return
	}
	t.text = trace.Event(t.text[:0], now, ev)
	for _, e := range effects {
		t.text = trace.Effect(t.text, now, e)
	}
	_, _ = t.file.Write(t.text) // the job goes on without its trace
}

func (t *tracer) close() {
	if t != nil {
		t.file.Close()
	}
}
