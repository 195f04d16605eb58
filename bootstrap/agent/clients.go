package agent

import (
	"time"

	"ibrun/bootstrap/clients/pmi"
	"ibrun/bootstrap/clients/pmixserver"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// JoinParcels merges the parcels of a barrier, so that fewer are forwarded. It merges parcels with PMI values, with PMI
// listings, and with PMIx news, each kind by itself, and returns all others unchanged.
func JoinParcels(p rankwire.Parcels) rankwire.Parcels { return pmixserver.Join(pmi.Join(p)) }

// The loop passes the events below to the servers of PMI, PMIx and Charm++, which decide what the core receives of
// them.
type (
	pmiReceived struct {
		rank  job.Slot
		words []byte
	}
	callReceived struct {
		call  uint32
		words []byte
	}
	callClosed   uint32
	pmixReceived struct {
		call  uint32
		bytes []byte
	}
	pmixClosed uint32
	pmixDue    struct{ call, tag uint32 }
	pmixPlaced pmixserver.Placement
	rankFrame  core.RankFrame
	rankExited core.RankExited
)

func (l *loop) PMIReceived(rank job.Slot, words []byte)   { l.post(pmiReceived{rank, words}) }
func (l *loop) CallReceived(call uint32, words []byte)    { l.post(callReceived{call, words}) }
func (l *loop) CallClosed(call uint32)                    { l.post(callClosed(call)) }
func (l *loop) PMIxReceived(call uint32, b []byte)        { l.post(pmixReceived{call, b}) }
func (l *loop) PMIxClosed(call uint32)                    { l.post(pmixClosed(call)) }
func (l *loop) PMIxDue(call, tag uint32)                  { l.post(pmixDue{call, tag}) }
func (l *loop) PMIxPlaced(placement pmixserver.Placement) { l.post(pmixPlaced(placement)) }
func (l *loop) RankFrame(ev core.RankFrame)               { l.post(rankFrame(ev)) }
func (l *loop) RankExited(ev core.RankExited)             { l.post(rankExited(ev)) }

func (e pmiReceived) handle(l *loop) {
	if l.pmix.Take(e.rank) {
		l.obeyPMI(l.server.Receive(e.rank, e.words))
	} else {
		l.obeyPMIx(l.pmix.RefusePMI(e.rank))
	}
}

func (e callReceived) handle(l *loop) { l.obeyPMI(l.server.ReceiveCall(e.call, e.words)) }
func (e callClosed) handle(l *loop)   { l.server.CallClosed(uint32(e)) }
func (e pmixReceived) handle(l *loop) { l.obeyPMIx(l.pmix.Receive(e.call, e.bytes)) }
func (e pmixClosed) handle(l *loop)   { l.obeyPMIx(l.pmix.Closed(uint32(e))) }
func (e pmixDue) handle(l *loop)      { l.obeyPMIx(l.pmix.Due(e.call, e.tag)) }

func (e pmixPlaced) handle(l *loop) {
	placement := pmixserver.Placement(e)
	l.placed = &placement
	l.pmix.Placed(placement)
}

func (e rankFrame) handle(l *loop) {
	if l.pmix.Take(e.Rank) {
		l.hear(core.RankFrame(e))
	} else if _, hello := e.Msg.(rankwire.Hello); hello {
		l.ranks.RefuseProgram(e.Rank, pmixserver.AfterPMIx)
	}
}

func (e rankExited) handle(l *loop) {
	ev := core.RankExited(e)
	ev.Handles = l.pmix.Handles(e.Rank)
	ev.Awaited = l.server.Awaits(e.Rank) || l.pmix.Awaits(e.Rank)
	l.server.Exited(e.Rank)
	l.obeyPMIx(l.pmix.Exited(e.Rank))
	ev.PMI = l.server.IsClient(e.Rank) || l.pmix.IsClient(e.Rank)
	l.charmExited(&ev)
	l.hear(ev)
}

// obeyPMI performs the effects that the PMI server has returned.
func (l *loop) obeyPMI(effects []pmi.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case pmi.Words:
			if e.Call != 0 {
				l.ranks.PMI.Send(e.Call, e.Bytes)
			} else {
				l.ranks.Reply(e.Rank, e.Bytes)
			}
		case pmi.Bind:
			rank, refused := l.ranks.PMI.BindID(e.Call, e.ID)
			if refused == "" && !l.pmix.Take(rank) {
				refused = pmixserver.AfterPMIx
			}
			l.obeyPMI(l.server.Bound(e.Call, rank, refused))
		case pmi.HangUp:
			l.ranks.PMI.HangUp(e.Call)
		case pmi.ClientFrame:
			l.hear(core.RankFrame{Rank: e.Rank, Msg: e.Msg})
		case pmi.BulkFetch:
			l.hear(core.BulkRequested{Fence: e.Fence})
		case pmi.FirstClient:
			l.hear(core.MPIFindings{MPIFindings: job.MPIFindings{SpokePMI: true}})
		case pmi.Warn:
			l.warn(e.Text)
		}
	}
}

// obeyPMIx performs the effects that the PMIx server has returned.
func (l *loop) obeyPMIx(effects []pmixserver.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case pmixserver.Bytes:
			l.ranks.PMIx.Send(e.Call, e.Bytes)
		case pmixserver.Admit:
			l.ranks.PMIx.Bind(e.Call, e.Rank)
		case pmixserver.HangUp:
			l.ranks.PMIx.HangUp(e.Call)
		case pmixserver.ClientFrame:
			l.hear(core.RankFrame{Rank: e.Rank, Msg: e.Msg})
		case pmixserver.Print:
			l.hear(core.RankOutput{Rank: e.Rank, Stream: e.Stream, Data: e.Text})
		case pmixserver.RemoveLater:
			l.ranks.RemoveLater(e.Call, e.Path, e.Tree)
		case pmixserver.ShutPMI:
			l.ranks.RefusePMI(e.Rank)
		case pmixserver.Timer:
			time.AfterFunc(e.After, func() { l.PMIxDue(e.Call, e.Tag) })
		case pmixserver.FirstClient:
			l.hear(core.MPIFindings{MPIFindings: job.MPIFindings{SpokePMI: true}})
		case pmixserver.Warn:
			l.warn(e.Text)
		}
	}
}
