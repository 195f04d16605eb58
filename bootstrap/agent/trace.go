package agent

import (
	"os"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/trace"
	"ibrun/internal/exit"
	"ibrun/internal/safefile"
)

// tracer writes the events and effects of this agent to a file. Each event is written together with its effects before
// they are performed, so the file is complete even if the agent is killed. The methods of a nil tracer do nothing.
type tracer struct {
	file *os.File
	text []byte
}

// startTrace creates or empties the file at path and starts to write the trace to it. Errors contain name in place of
// path.
func (l *loop) startTrace(path, name string) error {
	file, err := safefile.Create(path)
	if err != nil {
		return exit.Usagef("option --trace-events: %s cannot be written: %v", name, exit.Cause(err))
	}
	_ = file.Truncate(0) // fails for a pipe or a device, which is never truncated
	l.tracer = &tracer{file: file}
	return nil
}

// traceNode starts the trace of this node's agent in the file path.host, unless path is empty. If the file cannot be
// opened, traceNode only sends a warning. The warning says .HOST in place of the host's name, because ibrun prints
// equal warnings of several nodes only once.
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
	_, _ = t.file.Write(t.text) // a full disk, for example, must not end the job
}

func (t *tracer) close() {
	if t != nil {
		t.file.Close()
	}
}
