package agent

import (
	"os"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/trace"
	"ibrun/internal/exit"
	"ibrun/internal/safefile"
)

// tracer writes the events and effects of this agent to a file. It writes an event and its effects before the agent
// performs the effects, so that the file shows what the agent did even if it is killed. A nil tracer writes nothing.
type tracer struct {
	file *os.File
	text []byte
}

// startTrace creates or empties the file at path and starts to write the trace to it. Error messages contain name
// instead of path.
func (l *loop) startTrace(path, name string) error {
	file, err := safefile.Create(path)
	if err != nil {
		return exit.Usagef("option --trace-events: %s cannot be written: %v", name, exit.Cause(err))
	}
	_ = file.Truncate(0) // fails for a pipe or a device, which has no content to remove
	l.tracer = &tracer{file: file}
	return nil
}

// traceNode starts the trace of this node's agent in the file path.host, unless path is empty. If the file cannot be
// opened, traceNode sends a warning to the user and the job continues without this trace. The warning has .HOST in
// place of the host's name, because ibrun prints equal warnings of several nodes only once.
func (l *loop) traceNode(path, host string) {
	if path == "" {
		return
	}
	if err := l.startTrace(path+"."+host, path+".HOST"); err != nil {
		l.warn(err.Error())
	}
}

// add writes ev and its effects. now is the time since the start of the agent.
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
