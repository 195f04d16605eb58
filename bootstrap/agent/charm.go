package agent

import (
	"net/netip"

	"ibrun/bootstrap/clients/charm"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/spawn"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
	"ibrun/internal/netiface"
)

// The events below concern the server of Charm++. rankDrained is the end of a rank's output. It goes to that server if
// the rank sends its output to the server in messages, and directly to the core otherwise.
type (
	charmStarting spawn.CharmRank
	charmReceived struct {
		call  uint32
		bytes []byte
	}
	charmClosed uint32
	charmMuted  job.Slot
	rankDrained core.RankDrained
)

func (l *loop) CharmStarting(r spawn.CharmRank)     { l.post(charmStarting(r)) }
func (l *loop) CharmReceived(call uint32, b []byte) { l.post(charmReceived{call, b}) }
func (l *loop) CharmClosed(call uint32)             { l.post(charmClosed(call)) }
func (l *loop) CharmMuted(rank job.Slot)            { l.post(charmMuted(rank)) }
func (l *loop) RankDrained(ev core.RankDrained)     { l.post(rankDrained(ev)) }

func (e charmStarting) handle(l *loop) {
	if l.charmAt == nil {
		at := l.datagramAddress()
		l.charmAt = &at
	}
	l.charm.Place(*l.charmAt)
	l.charm.Expect(e.Rank, e.PEs, e.Prints, e.Resizes)
}

func (e charmReceived) handle(l *loop) { l.obeyCharm(l.charm.Receive(e.call, e.bytes)) }
func (e charmClosed) handle(l *loop)   { l.obeyCharm(l.charm.Closed(uint32(e))) }
func (e charmMuted) handle(l *loop)    { l.obeyCharm(l.charm.Muted(job.Slot(e))) }

func (e rankDrained) handle(l *loop) {
	if l.charm.Prints(e.Rank) {
		l.obeyCharm(l.charm.Drained(e.Rank))
	} else {
		l.hear(core.RankDrained(e))
	}
}

// datagramAddress returns the IPv4 address at which Charm++ programs on other nodes can send datagrams to this node. It
// chooses the address by --iface, because a program would only guess. It returns 127.0.0.1 if the job has one node, or
// if no address is found.
func (l *loop) datagramAddress() [4]byte {
	here := [4]byte{127, 0, 0, 1}
	if l.charmJob.Nodes < 2 {
		return here
	}
	links, err := netiface.Links()
	if err != nil {
		return here
	}
	for i := range links { // keep only IPv4 addresses, because Charm++ programs use no others
		four := links[i].Addrs[:0:0]
		for _, p := range links[i].Addrs {
			if p.Addr().Is4() {
				four = append(four, p)
			}
		}
		links[i].Addrs = four
	}
	at, _ := netip.ParseAddr(l.path) // the zero Addr if the path is unknown
	chosen, err := netiface.Choose(l.charmJob.Transport.Iface, at, links)
	if err != nil || !chosen.Addr.Is4() {
		why := "see them with: ip addr"
		if err != nil {
			why = err.Error()
		}
		l.warn("this node has no IPv4 address, and programs of Charm++ know no other: " + why)
		return here
	}
	return chosen.Addr.As4()
}

// obeyCharm performs the effects that the server of Charm++ has returned.
func (l *loop) obeyCharm(effects []charm.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case charm.Bytes:
			l.ranks.Charm.Send(e.Call, e.Bytes)
		case charm.Admit:
			l.ranks.Charm.Bind(e.Call, e.Rank)
		case charm.HangUp:
			l.ranks.Charm.HangUp(e.Call)
		case charm.Hold:
			l.ranks.Charm.Hold(e.Call, e.Held)
		case charm.Mute:
			l.ranks.Mute(e.Rank)
		case charm.ClientFrame:
			l.hear(core.RankFrame{Rank: e.Rank, Msg: e.Msg})
		case charm.PrintText:
			l.hear(core.RankOutput{Rank: e.Rank, Stream: e.Stream, Data: e.Text})
		case charm.InputRead:
			l.hear(core.RankInputRead{Rank: e.Rank, N: e.N})
		case charm.Drained:
			l.hear(core.RankDrained{Rank: e.Rank})
		case charm.FirstClient:
			l.hear(core.MPIFindings{MPIFindings: job.MPIFindings{SpokePMI: true}})
		case charm.Replied:
			l.hear(core.CCSReplied{CCSReply: wire.CCSReply{ID: e.ID, Rank: e.Rank, Trouble: e.Trouble, Data: e.Data}})
		case charm.Warn:
			l.warn(e.Text)
		}
	}
}

// charmExited completes the exit event ev of a rank that has registered as a Charm++ program. If the program has
// announced its end, charmExited replaces the status in ev with the announced exit code. Otherwise, it marks the rank
// as a client, and as awaited by its peers if it failed in a job with --keep-going.
func (l *loop) charmExited(ev *core.RankExited) {
	l.obeyCharm(l.charm.Exited(ev.Rank, ev.Status.OK()))
	if !l.charm.IsClient(ev.Rank) {
		return
	}
	if code, ended := l.charm.Code(ev.Rank); ended {
		ev.Status, ev.Signaled, ev.Cause = job.Status{Kind: job.Exited, Code: code}, false, ""
		return
	}
	ev.PMI = true
	ev.Awaited = l.charmJob.Launch.KeepGoing && !ev.Status.OK()
}
