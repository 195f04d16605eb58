package agent

import (
	"time"

	"ibrun/bootstrap/clients/pmi"
	"ibrun/bootstrap/clients/pmixserver"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/spawn"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// JoinParcels makes few parcels of those of a barrier.
func JoinParcels(p rankwire.Parcels) rankwire.Parcels { return pmixserver.Join(pmi.Join(p)) }

// fromRanks takes in what comes of this node's ranks: the servers of PMI and PMIx hear of it before
// the core does.
func (l *loop) fromRanks(got any) {
	switch got := got.(type) {
	case spawn.PMIBytes:
		if l.pmix.Take(got.Rank) {
			l.obeyPMI(l.server.Receive(got.Rank, got.Words))
		} else {
			l.obeyPMIx(l.pmix.RefusePMI(got.Rank))
		}
	case spawn.CallBytes:
		l.obeyPMI(l.server.ReceiveCall(got.Call, got.Words))
	case spawn.CallClosed:
		l.server.CallClosed(got.Call)
	case spawn.PMIxBytes:
		l.obeyPMIx(l.pmix.Receive(got.Call, got.Bytes))
	case spawn.PMIxClosed:
		l.obeyPMIx(l.pmix.Closed(got.Call))
	case pmixDue:
		l.obeyPMIx(l.pmix.Due(got.call, got.tag))
	case pmixserver.Placement:
		l.placed = &got
		l.pmix.Placed(got)
	case core.RankFrame:
		if l.pmix.Take(got.Rank) {
			l.hear(got)
		} else if _, hello := got.Msg.(rankwire.Hello); hello {
			l.ranks.RefuseProgram(got.Rank, pmixserver.AfterPMIx)
		}
	case core.RankExited:
		got.Handles = l.pmix.Handles(got.Rank)
		got.Awaited = l.server.Awaits(got.Rank) || l.pmix.Awaits(got.Rank)
		l.server.Exited(got.Rank)
		l.obeyPMIx(l.pmix.Exited(got.Rank))
		got.PMI = l.server.IsClient(got.Rank) || l.pmix.IsClient(got.Rank)
		l.charmExited(&got)
		l.hear(got)
	case spawn.Warning:
		l.warn(got.Text)
	default:
		l.fromCharm(got)
	}
}

// pmixDue says that the time of a client's request is up.
type pmixDue struct{ call, tag uint32 }

// obeyPMI obeys the PMI server.
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

// obeyPMIx obeys the PMIx server.
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
			time.AfterFunc(e.After, func() { l.post(pmixDue{e.Call, e.Tag}) })
		case pmixserver.FirstClient:
			l.hear(core.MPIFindings{MPIFindings: job.MPIFindings{SpokePMI: true}})
		case pmixserver.Warn:
			l.warn(e.Text)
		}
	}
}
