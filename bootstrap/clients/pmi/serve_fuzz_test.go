package pmi

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
	"ibrun/test/fuzzed"
)

// FuzzServer is a server whose ranks and callers say pieces of PMI in any order, and
// whose tree tells it what nobody asked for. It has an end with each of them, says
// to the core what a frame can hold, and takes memory for what it was given.
func FuzzServer(f *testing.F) {
	for mode := range byte(6) {
		input := []byte{mode}
		for i := range 200 {
			input = append(input, byte(i*int(29+mode)), byte(i/8))
		}
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 2<<10 {
			return
		}
		x := newLies(t, input)
		before := fuzzed.Allocated()
		for len(x.Input) > 0 {
			x.turn()
		}
		require.LessOrEqual(t, fuzzed.Allocated()-before, uint64(8<<20+64*x.bytes), "bytes allocated for %d received", x.bytes)
		x.server.Shared()
	})
}

// lies are what a server of three ranks, the second node's, is told.
type lies struct {
	t *testing.T
	fuzzed.Input
	server *Server
	bytes  int
}

const firstSlot, slots = 2, 3

func newLies(t *testing.T, input []byte) *lies {
	x := &lies{t: t, Input: input}
	mode := x.Byte()
	l := job.NewLayout([]job.Share{{Nodes: 1, Ranks: 2}, {Nodes: 1, Ranks: 3}, {Nodes: 2, Ranks: 1}}).Dealt(uint32(mode) % 3)
	j := &job.Job{ID: "j", Size: l.Ranks(), Nodes: l.Nodes(), Layout: l, Programs: []job.Program{{Count: l.Ranks(), Argv: []string{"a"}}}}
	j.Transport.Eager, j.Transport.Learn, j.Transport.Stats = mode&1 > 0, mode&2 > 0, mode&4 > 0
	x.server = NewServer(j, 0)
	return x
}

func (x *lies) slot() uint32 { return firstSlot + uint32(x.Of(slots)) }

func (x *lies) key() string {
	return []string{"k", "bc-0", "bc-12", "UCX-3-0", "x0000001", "9 k", "-"}[x.Of(7)]
}

// words are a piece of PMI.
func (x *lies) words() []byte {
	two := func(s string) string { return fmt.Sprintf("%6d%s", len(s), s) }
	words := []string{
		"cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=init pmi_version=2 pmi_subversion=0\n", two("cmd=fullinit;pmirank=0;threaded=FALSE;"),
		"cmd=get_maxes\n", fmt.Sprintf("cmd=put kvsname=kvs_j key=%s value=v%d\n", x.key(), x.Byte()), "cmd=barrier_in\n", fmt.Sprintf("cmd=get kvsname=kvs_j key=%s\n", x.key()),
		"cmd=finalize\n", "cmd=publish_name service=s port=p\n", "cmd=lookup_name service=s\n", "cmd=abort exitcode=3\n", "cmd=initack pmiid=7\n",
		"mcmd=spawn\nnprocs=99999999\nexecname=a\ntotspawns=1\nspawnssofar=1\npreput_num=0\nendcmd\n",
		two("cmd=kvs-put;key=" + x.key() + ";value=w;"), two("cmd=kvs-fence;"), two("cmd=kvs-get;key=" + x.key() + ";"), two("cmd=ring;ring-count=1;ring-left=a;ring-right=b;"),
		two("cmd=info-getnodeattr;key=a;wait=TRUE;"), two("cmd=info-putnodeattr;key=a;value=b;"), two("cmd=spawn;ncmds=1;preputcount=0;subcmd=a;maxprocs=4294967295;argc=0;"), "\x00",
	}
	b := []byte(words[x.Of(len(words))])
	x.bytes += len(b)
	return b
}

// message is what a core could tell a rank, or could not.
func (x *lies) message() frame.Message {
	value := []byte{byte(x.Of(4)), x.Byte(), x.Byte(), 'k', x.Byte(), x.Byte(), x.Byte()}[:x.Of(8)]
	op := uint32(x.Of(4))
	switch x.Of(5) {
	case 0:
		parcels := rankwire.NewParcels(rankwire.Parcel{From: job.Slot(x.Of(8)), To: rankwire.Everyone, Value: value}, rankwire.Parcel{From: 1, To: job.Slot(x.slot()), Value: value})
		return rankwire.Release{Op: op, What: rankwire.Collective(x.Of(6)), Trouble: []string{"", "", "so"}[x.Of(3)], Parcels: parcels}
	case 1:
		return rankwire.Answer{Rank: job.Slot(x.Of(9)), Key: kvsKey(op, x.key()), What: rankwire.Answered(x.Of(4)), Value: value}
	case 2:
		return rankwire.Name{Rank: job.Slot(x.slot()), Do: rankwire.Naming(x.Of(3)), Port: x.key(), Done: x.Of(2) > 0}
	case 3:
		return rankwire.JobSpawned{Rank: job.Slot(x.slot()), JobID: "k", Refused: []string{"", "no"}[x.Of(2)]}
	}
	return rankwire.PutDone{Again: true}
}

func (x *lies) turn() {
	h, call := x.server, uint32(1+x.Of(3))
	switch x.Of(12) {
	case 0, 1, 2, 3, 4, 5:
		x.obey(h.Receive(job.Slot(x.slot()), x.words()))
	case 6, 7:
		if slot := x.slot(); h.IsClient(job.Slot(slot)) {
			m := x.message()
			x.bytes += len(frame.Append(nil, m))
			x.obey(h.Deliver(job.Slot(slot), m))
		}
	case 8:
		x.obey(h.ReceiveCall(call, x.words()))
	case 9:
		x.obey(h.BulkFetched(uint32(x.Of(5)), frame.NewValues([]byte{x.Byte(), 1, 'k', 1, x.Byte()}, []byte{x.Byte()})))
	case 10:
		x.bytes += len(h.Give(uint32(x.Of(5))))
	case 11:
		if x.Of(4) == 0 {
			h.CallClosed(call)
		} else if x.Of(8) == 0 {
			h.Exited(job.Slot(x.slot()))
		}
	}
}

func (x *lies) obey(effects []Effect) {
	require.Less(x.t, len(effects), 1000)
	for _, e := range effects {
		switch e := e.(type) {
		case ClientFrame:
			if _, spawn := e.Msg.(rankwire.SpawnJob); !spawn { // the core looks at it
				require.NoError(x.t, rankwire.Vocabulary.Check(e.Msg, 0), "%v", e.Msg)
			}
			require.True(x.t, rankwire.Vocabulary.Allows(e.Msg.Kind(), frame.Rank), "%v", e.Msg)
		case Bind:
			x.obey(x.server.Bound(e.Call, job.Slot(x.slot()), []string{"", "no"}[x.Of(2)]))
		}
	}
}
