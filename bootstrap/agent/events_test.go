package agent

import "ibrun/bootstrap/core"

// recorder is a function that implements linkEvents and terminalEvents. Each method calls the function with its event.
type recorder func(core.Event)

func (r recorder) Frame(ev core.Frame)             { r(ev) }
func (r recorder) LinkLost(ev core.LinkLost)       { r(ev) }
func (r recorder) StdinRead(ev core.StdinRead)     { r(ev) }
func (r recorder) Interrupted(ev core.Interrupted) { r(ev) }
func (r recorder) Wrote(ev core.Wrote)             { r(ev) }
func (r recorder) SinkFailed(ev core.SinkFailed)   { r(ev) }
