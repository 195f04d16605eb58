package core

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
)

// lies are what a child, or the parent, cannot say when it does: of an agent that
// has the first lines of a plan, after some events.
var lies = []struct{ plan, before, lie string }{
	// n1, whose children are n2 with n4, and n3.
	{"", "", "0 -> Ready up=3"},
	{"", "", "0 -> Ready up=4294967295 failed=2"},
	{"", "0 -> Ready up=2", "0 -> Ready up=2"},
	{"", "", "0 -> Times nodes=[{node=2}]"},
	{"timed", "0 -> Times nodes=[{node=2}]", "0 -> Times nodes=[{node=2}]"},
	{"timed", "0 -> Ready up=2", "0 -> Times nodes=[{node=2}]"},
	{"timed", "", "0 -> Times nodes=[{node=3}]"},
	{"timed", "", "0 -> Times nodes=[{node=2} {node=1048575 parent=3}]"},
	{"timed", "", "0 -> Times nodes=[{node=2} {node=3 parent=4}]"},
	{"timed", "", "0 -> Times nodes=[{node=2} {node=2 parent=3}]"},
	{"timed", "", "0 -> Times nodes=[{node=2}] missing=2"},
	{"", "", "0 -> Output rank=1 stream=1 data=x"},
	{"", "", "0 -> Output rank=9 stream=1 data=x"},
	{"credit 1", "0 -> Output rank=2 stream=1 data=#524288", "0 -> Output rank=2 stream=1 data=x"},
	{"", "", "0 -> StdinRoom n=1"},
	{"", "", "0 -> Return part={first=2 nodes=n2}"},
	{"", "", "0 -> Return part={first=2 nodes=n2..n3}"},
	{"", "", "0 -> Return part={first=4 nodes=n4}"},
	{"", "0 -> Ready up=2", "0 -> Return part={first=3 nodes=n3}"},
	{"", "", "0 -> Fault what=rank node=1 nodes=1 rank=2 count=1"},
	{"", "", "0 -> Fault what=rank node=2 nodes=1 rank=1 count=1"},
	{"", "", "0 -> Fault what=spawn node=2 nodes=1 rank=2 count=3"},
	{"", "", "0 -> Fault what=abort node=2 nodes=1 rank=2"},
	{"", "", "0 -> Fault what=lost node=4 nodes=1"},
	{"", "", "0 -> Fault what=lost node=2 nodes=3"},
	{"", "", "0 -> Fault what=launch node=2 nodes=1"},
	{"", "", "0 -> Fault what=launch node=3 nodes=2"},
	{"", "", "0 -> Fault what=launch node=3"},
	{"", "0 -> Ready up=2", "0 -> Fault what=launch node=3 nodes=1"},
	{"", "", "0 -> Fault what=fallback node=1 nodes=1"},
	{"", "0 -> Ready up=2", "0 -> Waiting items=[{node=3}]"},
	{"", "", "0 -> Swept killed=1"},
	{"from running", "", "up -> Sweep job=j"},
	{"from running", "", "0 -> Answer rank=3"},
	{"from running", "0 -> Ask rank=0", "0 -> Answer rank=0 value=@0/0/10.0.0.3:7"},
	{"from running", "up -> Ask rank=2 key=k", "0 -> Answer rank=2 key=l value=v"},
	{"from running", "up -> Ask rank=2", "0 -> Answer rank=2 value=@3/3/10.0.0.3:7"},
	{"from running", "up -> Ask rank=2", "0 -> Answer rank=2 value=@2/2/-"},
	{"from running", "up -> Ask rank=2", "0 -> Answer rank=2 value=@2/1/10.0.0.3:7,10.0.0.3:8"},
	{"from running", "up -> Ask rank=2", "0 -> Answer rank=2 value=short"},
	{"from running", "", "0 -> Answer rank=99"},
	{"from running", "", "0 -> Collect op=2"},
	{"from running", "0 -> Collect op=1", "0 -> Collect op=1"},
	{"from running", "", "0 -> Collect op=1 parcels=[{from=4 to=everyone}]"},
	{"from running", "", "0 -> Collect op=1 parcels=[{from=2 to=5}]"},
	{"from running", "", "0 -> Blocks"},
	{"eager\nfrom running", "0 -> Blocks values=[@2/2/10.0.0.3:7]", "0 -> Blocks"},
	{"eager\nfrom running", "", "0 -> Blocks values=[@1/1/10.0.0.3:7]"},
	{"eager\nfrom running", "", "0 -> Blocks values=[@2/2/10.0.0.3:7 @3/3/10.0.0.3:7 @3/3/10.0.0.3:7]"},
	{"eager\nfrom running", "", "0 -> Blocks values=[short]"},
	{"from running", "", "0 -> BulkFetch fence=1"},
	{"from running", failedFence, "0 -> BulkFetch fence=1"},
	{"from running", failedFence, "up -> BulkFetch fence=2"},
	{"from running", "", "up -> BulkValues fence=1"},
	{"from running", "", "0 -> BulkValues fence=1"},
	{"from running", "", "0 -> TableFetch round=1"},
	{"learn\nfrom running", "", "0 -> TableFetch round=5"},
	{"learn\nfrom running", "", "0 -> TableValues round=1"},
	{"learn\nfrom running", "up -> TableFetch round=1", "0 -> TableValues round=1 values=[@1/1/10.0.0.3:7]"},
	{"from running", "", "0 -> Tally of={ranks=1}"},
	{"stats\nfrom running", "0 -> Tally of={ranks=1}", "0 -> Tally of={ranks=1}"},
	{"from running", "", "0 -> Placed node=2"},
	{"report\nfrom running", "", "0 -> Placed node=4"},
	{"report\nfrom running", "", "0 -> Placed node=2 ranks=[{rank=3}]"},
	{"from running", "", "0 -> Name rank=4"},
	{"from running", "", "0 -> SpawnJob rank=1 commands=[{argv=[a] ranks=1}]"},
	{"from running", "", "0 -> Failures ranks=[{first=2 count=1}]"},
	{"keep-going\nfrom running", "", "0 -> Failures ranks=[{first=4 count=1}]"},
	{"from running", "", "0 -> FloorSet serial=1"},
	{"restart 3\nfrom running", "", "0 -> FloorSet serial=1"},
	{"from running", "", "0 -> Respawned serial=1 first=2 count=1"},
	{"restart 3\nfrom running", "up -> Floor serial=1 first=2 count=1 epoch=1025", "0 -> Respawned serial=1 first=1 count=1"},
	{"restart 3\nfrom running", "", "0 -> Recalled serial=1"},
	{"from running", "", "0 -> Rest"},
	{"restart 3\nfrom running", "", "0 -> Rest serial=1"},
	{"from running", "", "0 -> Replaced node=2"},
	{"restart 3\nfrom running", "", "0 -> Replaced node=4"},
	{"from running", "", "0 -> Below"},
	{"from running", "", "0 -> Joined"},
	{"from running", "", "0 -> State"},
	{"from running", "", "0 -> Report node=2 serial=1 fault={what=lost node=2 nodes=1}"},
	{"from running", "", "0 -> Chunk output={rank=2 stream=1 data=x}"},
	{"from running", "", "0 -> Signal number=18"},
	{"from running", "", "0 -> Exit"},
	{"from running", "", "0 -> Exit runs=[2+1:exit:0]"},
	{"from running", "", "0 -> Exit runs=[2+3:exit:0]"},
	{"from running", "", "0 -> Exit runs=[1+2:exit:0]"},
	{"dealt\nfrom running", "", "0 -> Exit runs=[2+1:exit:0 4294967290+1:exit:0]"},

	// The same agent, and its parent.
	{"", "", "up -> Membership"},
	{"from running", "", "up -> Membership"},
	{"held\nfrom up", "", "up -> Membership dropped=[{first=1 count=1}]"},
	{"held\nfrom up", "", "up -> Membership dropped=[{first=4 count=1}]"},
	{"held\nfrom up", "", "up -> Membership dropped=[{first=5 count=1}]"},
	{"from running", "", "up -> Stdin data=#262145"},
	{"from running", "up -> Stdin eof", "up -> Stdin data=x"},
	{"from running", "", "up -> Answer rank=0"},
	{"from running", "rank 1 -> Ask rank=0", "up -> Answer rank=0 value=@1/1/10.0.0.3:7"},
	{"from running", "", "up -> Release op=1"},
	{"from running", "rank 1 -> Collect op=1", "up -> Release op=1"},
	{"from running", "", "up -> Blocks"},
	{"eager\nfrom running", "up -> Blocks", "up -> Blocks"},
	{"from running", "", "up -> Failures ranks=[{first=2 count=1}]"},
	{"keep-going\nfrom running", "", "up -> Failures ranks=[{first=5 count=2}]"},
	{"from running", "", "up -> Floor serial=1 first=0 count=1 epoch=1025"},
	{"restart 3\nfrom running", "", "up -> Floor serial=1 first=4 count=2 epoch=1025"},
	{"from running", "", "up -> Respawn serial=1 first=0 count=1 epoch=1025"},
	{"restart 3\nfrom running", "", "up -> Respawn serial=1 first=5 count=1 epoch=1025"},
	{"restart 3\nfrom running", "", "up -> Respawn serial=1 first=2 count=1 epoch=1025"},
	{"from running", "", "up -> Recall serial=1"},
	{"from running", "", "up -> Replace part={first=2 nodes=n2}"},
	{"restart 3\nfrom running", "", "up -> Replace part={first=2 nodes=n3}"},
	{"from running", "", "up -> Standing"},
	{"restart 3\nfrom running", "", "up -> Standing"},
	{"restart 3\nheld\nfrom up", "", "up -> Standing number=1"},
	{"from running", "", "up -> Join job=j"},
	{"from running", "", "up -> Resume credit=1"},
	{"from running", "", "up -> Passed serial=1"},
	{"from running", "", "0 -> Reply id=1 nodes=1"},
	{"from running", "up -> Query id=1 what=look patiencems=9000", "0 -> Reply id=1 rows=[{rank=4}]"},
	{"from running", "up -> Query id=1 what=look patiencems=9000", "0 -> Reply id=1 groups=[{count=9 ranks=[{first=0 count=5}]}]"},
	{"", "", "up -> Query id=1 what=look"},
	{"from running", "up -> Query id=1 what=look patiencems=9000", "up -> Query id=1 what=look"},
	{"from running", "", "0 -> DaemonOutput id=1 number=2 stream=1 data=x"},
	{"from running", "up -> Daemons id=1 argv=[a] credit=9", "0 -> DaemonOutput id=1 number=1 stream=1 data=x"},
	{"from running", "up -> Daemons id=1 argv=[a] credit=9", "0 -> DaemonOutput id=1 number=2 stream=1 data=#65537"},
	{"from running", "up -> Daemons id=1 nodes=[{first=1 count=1}] argv=[a]", "0 -> DaemonsEnded id=1 daemons=1"},
	{"from running", "", "0 -> DaemonsEnded id=1"},
	{"from running", "up -> Daemons id=1 argv=[a]", "0 -> DaemonsEnded id=1 lost=3"},
	{"from running", "up -> Daemons id=1 argv=[a]", "0 -> DaemonsEnded id=1 daemons=1 more=2"},
	{"from running", "up -> Daemons id=1 argv=[a]", "0 -> DaemonsEnded id=1 daemons=1 failed=[{number=4}]"},
	{"", "", "up -> Daemons id=1 argv=[a]"},
	{"from running", "up -> Daemons id=1 argv=[a]", "up -> Daemons id=1 argv=[a]"},
	{"from running", "", "up -> Daemons id=1 argv=[a] nodes=[{first=5 count=1}]"},
	{"from running", "", "up -> DaemonGrant id=1 n=1"},
	{"from running", "", "up -> DaemonsEnd id=1"},
	{"from running", "", "up -> Daemons id=1 argv=[a] perrank=true nodes=[{first=1 count=1}] input=1 ofrank=2"},
	{"from running", "", "up -> Daemons id=1 argv=[a] perrank=true nodes=[{first=1 count=2}] input=1 ofrank=1"},
	{"from running", "", "up -> Daemons id=1 argv=[a] perrank=true nodes=[{first=4 count=1}] input=1 ofrank=5"},
	{"from running", "", "up -> DaemonInput id=1 data=x"},
	{"from running", "up -> Daemons id=1 argv=[a]", "up -> DaemonInput id=1 data=x"},
	{"from running", "up -> Daemons id=1 argv=[a] perrank=true nodes=[{first=2 count=1}] input=1 ofrank=2", "up -> DaemonInput id=1 data=#262145"},
	{"from running", "", "0 -> DaemonRoom id=1 n=1"},
	{"from running", "up -> Daemons id=1 argv=[a] perrank=true nodes=[{first=2 count=1}] input=1 ofrank=2", "0 -> DaemonRoom id=1 n=1"},
	{"from running", "", "up -> CCSRequest id=1 rank=0 handler=x"},
	{"", "", "up -> CCSRequest id=1 rank=1 handler=x"},
	{"from running", "", "0 -> CCSReply id=1 rank=4"},
	{"from running", "", "0 -> Follow"},
	{"", "", "up -> Follow"},
	{"from running", "", "up -> Follow"},
	{"from running", "", "0 -> Departed"},
	{"from running", "up -> Resize step=done layout=4x1", "0 -> Collect op=1 parcels=[{from=2 to=4}]"},
	{"from running", "", "up -> Resize layout=1x1,4x2"},
	{"from running", "", "up -> Resize layout=3x1,2x2"},
	{"dealt\nfrom running", "", "up -> Resize layout=5x1"},
	{"", "", "up -> Resize layout=5x1"},
	{"held\nfrom up", "", "up -> Resize layout=5x1"},
	{"restart 3\nfrom running", "", "up -> Resize layout=5x1"},
	{"keep-going\nfrom running", "", "up -> Resize layout=5x1"},
	{"from running", "", "up -> Enter"},
	{"held", "", "up -> Enter"},
	{"held\nfrom up", "", "up -> Enter"},
	{"from running", "", "0 -> SessionCollect id=1 part={op=1}"},
	{"from running", "up -> Session id=1 members=[{nodes={first=0 count=5} each=1}] argv=[a] credit=9", "0 -> SessionCollect id=1 part={op=2}"},
	{"from running", "up -> Session id=1 members=[{nodes={first=0 count=5} each=1}] argv=[a] credit=9", "0 -> SessionCollect id=1 part={op=1 parcels=[{from=1 to=0}]}"},
	{"from running", "up -> Session id=1 members=[{nodes={first=0 count=5} each=1}] argv=[a] credit=9", "0 -> SessionPiece id=1 data={last}"},
	{"from running", "", "0 -> SessionPiece id=1 data={last}"},
	{"from running", "up -> Session id=1 members=[{nodes={first=0 count=5} each=1}] argv=[a] credit=9", "0 -> SessionRoom id=1 n=1"},
	{"from running", "up -> Session id=1 members=[{nodes={first=0 count=5} each=1}] argv=[a] credit=9", "0 -> DaemonOutput id=1 number=1 stream=1 data=x"},
	{"", "", "up -> Session id=1 members=[{nodes={first=0 count=5} each=1}] argv=[a]"},
	{"from running", "up -> Session id=1 members=[{nodes={first=0 count=5} each=1}] argv=[a] credit=9", "up -> Session id=1 members=[{nodes={first=0 count=5} each=1}] argv=[a]"},
	{"from running", "", "up -> Session id=1 members=[{nodes={first=5 count=1} each=1}] argv=[a]"},
	{"from running", "", "up -> Session id=1 members=[{nodes={first=1 count=1} each=2}] perrank argv=[a]"},
	{"from running", "", "up -> Session id=1 members=[{nodes={first=4 count=1} each=2}] perrank argv=[a]"},
	{"from running", "", "up -> Session id=1 members=[{nodes={first=0 count=2} each=1} {nodes={first=3 count=2} each=2}] perrank argv=[a]"},
	{"from running", "up -> Session id=1 members=[{nodes={first=0 count=5} each=1}] argv=[a] credit=9", "up -> SessionRelease id=1 part={op=1}"},
	{"from running", "", "up -> SessionPiece id=1 data={last}"},
	{"from running", "", "up -> SessionRoom id=1 n=1"},
	{"from running", "", "up -> BulkFetch fence=1"},
	{"from running", "", "up -> TableFetch round=1"},
	{"learn\nfrom running", "", "up -> TableValues round=1"},
}

// failedFence is a collective that has failed.
const failedFence = "rank 1 -> Collect op=1\n0 -> Collect op=1\n1 -> Collect op=1\nup -> Release op=1 trouble=x"

// TestLies holds that a neighbour which lies is cut off, with a cause that names
// it, before anything else is done about what it said.
func TestLies(t *testing.T) {
	kinds := map[frame.Kind]bool{}
	for _, l := range lies {
		name := l.plan + ": " + l.before + ": " + l.lie
		s := newScenario(t, "agent 1 5\nnodes 1 1 1 1 1\ntree kary:2\n"+l.plan)
		if !strings.Contains(l.plan, "from") {
			s.replay("begin\nForkDone\nChildUp child=0\nChildUp child=1")
		}
		s.replay(l.before)
		ev, err := readEvent(l.lie)
		require.NoError(t, err, name)
		kinds[ev.(Frame).Msg.Kind()] = true
		did := strings.Join(s.happens(l.lie), "\n")
		if strings.HasPrefix(l.lie, "up") {
			require.True(t, strings.HasPrefix(did, "CloseLink link=up"), "%s:\n%s", name, did)
			require.NotContains(t, did, "up <-", name)
			require.Equal(t, ending, s.core.stage, name)
			continue
		}
		require.True(t, strings.HasPrefix(did, "CloseLink link=0"), "%s:\n%s", name, did)
		require.Contains(t, did, "up <- Fault what=lost node=2 nodes=2 rank=0 host=n2 parent=n1 cause=\"it sent what no agent sends: ", name)
	}
	for kind, format := range wire.Vocabulary {
		k := frame.Kind(kind)
		free := k == wire.KindHeartbeat || k == rankwire.KindNotice || k == rankwire.KindAsk // at any time, about anything
		child := wire.Vocabulary.Allows(k, frame.Child)
		require.Equal(t, child && !free, kinds[k] && child, "a lie of kind %s", format.Name)
	}
}
