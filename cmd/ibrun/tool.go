package main

import (
	"net"
	"os"
	"strconv"

	"ibrun/bootstrap/agent"
	"ibrun/cmd/ibrun/internal/plan"
	"ibrun/cmd/ibrun/internal/run"
	"ibrun/internal/exit"
	"ibrun/internal/proc"
)

// A tool that launches a job leaves a socket in these variables (docs/dev/decisions/0035-tools.md).
const (
	toolVariable = "IBRUN_TOOL"      // its descriptor
	endsVariable = "IBRUN_TOOL_ENDS" // not empty: the job ends if the tool does while ranks are held
)

// tool is what has launched ibrun, if it is no user: a program with libibruntool, or a debugger.
type tool struct {
	conn *net.UnixConn // nil: none
	ends bool
	mpir bool
}

// findTool takes what a tool has left for this process, so that nobody else sees it.
func findTool() (t tool, err error) {
	text := os.Getenv(toolVariable)
	t.mpir, t.ends = debugged(), os.Getenv(endsVariable) != ""
	os.Unsetenv(toolVariable)
	os.Unsetenv(endsVariable)
	if text == "" {
		return t, nil
	}
	fd, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return t, exit.Usagef("%s=%q is not a descriptor", toolVariable, text)
	}
	f := os.NewFile(uintptr(fd), "tool")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return t, exit.Usagef("descriptor %d of %s is not a socket: %v", fd, toolVariable, exit.Cause(err))
	}
	var ok bool
	if t.conn, ok = conn.(*net.UnixConn); !ok {
		return t, exit.Usagef("descriptor %d of %s is not a Unix socket", fd, toolVariable)
	}
	return t, nil
}

// use lets a job serve the tool.
func (t tool) use(p *plan.Plan, cfg *agent.RootConfig) {
	p.Job.Launch.Hold = p.Job.Launch.Hold || t.conn != nil || t.mpir
	cfg.Tool, cfg.ToolEnds = t.conn, t.ends
	if run.MPIRExists() {
		cfg.Debugger = &agent.Debugger{Starts: t.mpir, Wants: debugged, Give: run.MPIRSpawned}
	}
}

// debugged reports whether a debugger wants the table of ranks.
func debugged() bool {
	if !run.BeingDebugged() {
		return false
	}
	proc.KeepBreakpoints()
	return true
}
