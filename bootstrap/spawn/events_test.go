package spawn

import (
	"ibrun/bootstrap/clients/pmixserver"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/internal/job"
)

// Event is the argument of a recorder. It is the argument of a method of Events. If that has several arguments or a
// basic type, Event is one of the types below instead.
type Event = any

type (
	PMIBytes struct {
		Rank  job.Slot
		Words []byte
	}
	CallBytes struct {
		Call  uint32
		Words []byte
	}
	CallClosed struct{ Call uint32 }
	PMIxBytes  struct {
		Call  uint32
		Bytes []byte
	}
	PMIxClosed struct{ Call uint32 }
	CharmBytes struct {
		Call  uint32
		Bytes []byte
	}
	CharmClosed struct{ Call uint32 }
	Muted       struct{ Rank job.Slot }
	Warning     struct{ Text string }
)

// recorder is a function that implements Events. Each method calls the function with its event.
type recorder func(Event)

func (r recorder) ForkDone(ev core.ForkDone)                   { r(ev) }
func (r recorder) Placed(ev core.Placed)                       { r(ev) }
func (r recorder) MPIFindings(ev core.MPIFindings)             { r(ev) }
func (r recorder) RankFrame(ev core.RankFrame)                 { r(ev) }
func (r recorder) RankOutput(ev core.RankOutput)               { r(ev) }
func (r recorder) RankInputRead(ev core.RankInputRead)         { r(ev) }
func (r recorder) RankInputClosed(ev core.RankInputClosed)     { r(ev) }
func (r recorder) RankExited(ev core.RankExited)               { r(ev) }
func (r recorder) RankDrained(ev core.RankDrained)             { r(ev) }
func (r recorder) RankFenced(ev core.RankFenced)               { r(ev) }
func (r recorder) Respawned(ev core.Respawned)                 { r(ev) }
func (r recorder) MemberFrame(ev flow.MemberFrame)             { r(ev) }
func (r recorder) DaemonOutput(ev flow.DaemonOutput)           { r(ev) }
func (r recorder) DaemonInputRead(ev flow.DaemonInputRead)     { r(ev) }
func (r recorder) DaemonInputClosed(ev flow.DaemonInputClosed) { r(ev) }
func (r recorder) DaemonExited(ev flow.DaemonExited)           { r(ev) }
func (r recorder) PMIReceived(rank job.Slot, words []byte)     { r(PMIBytes{rank, words}) }
func (r recorder) CallReceived(call uint32, words []byte)      { r(CallBytes{call, words}) }
func (r recorder) CallClosed(call uint32)                      { r(CallClosed{call}) }
func (r recorder) PMIxPlaced(p pmixserver.Placement)           { r(p) }
func (r recorder) PMIxReceived(call uint32, b []byte)          { r(PMIxBytes{call, b}) }
func (r recorder) PMIxClosed(call uint32)                      { r(PMIxClosed{call}) }
func (r recorder) CharmStarting(c CharmRank)                   { r(c) }
func (r recorder) CharmReceived(call uint32, b []byte)         { r(CharmBytes{call, b}) }
func (r recorder) CharmClosed(call uint32)                     { r(CharmClosed{call}) }
func (r recorder) CharmMuted(rank job.Slot)                    { r(Muted{rank}) }
func (r recorder) Warn(text string)                            { r(Warning{text}) }
