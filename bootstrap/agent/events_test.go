package agent

import "ibrun/bootstrap/core"

// recorder implements linkEvents and terminalEvents. It is called with each event.
type recorder func(core.Event)

func (r recorder) Frame(ev core.Frame)             { r(ev) }
func (r recorder) LinkLost(ev core.LinkLost)       { r(ev) }
func (r recorder) StdinRead(ev core.StdinRead)     { r(ev) }
func (r recorder) Interrupted(ev core.Interrupted) { r(ev) }
func (r recorder) Wrote(ev core.Wrote)             { r(ev) }
func (r recorder) SinkFailed(ev core.SinkFailed)   { r(ev) }
