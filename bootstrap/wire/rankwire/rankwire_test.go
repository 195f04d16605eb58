package rankwire

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/frame/frametest"
	"ibrun/fabric"
	"ibrun/internal/job"
)

// suite returns the inputs for the tests of Vocabulary, with at least one sample of each kind of message.
func suite() frametest.Suite {
	return frametest.Suite{
		Vocabulary: Vocabulary, Speakers: frame.Rank | frame.Agent,
		Samples: slices.Concat(relayedSamples(), ownSamples()),
		Variant: "Publish.Tuple.Kind", View: view, Dense: dense,
	}
}

// relayedSamples returns messages of all kinds that agents relay to other agents.
func relayedSamples() []frame.Message {
	tally := job.Tally{Levels: []job.LevelTally{{Asked: 1, Hit: 2, Own: 3, Merged: 4, Relayed: 5}}}
	tally.Sum[job.CountPeers], tally.Latency[9] = 1<<40, 4
	full := job.Tally{}
	for i := range full.Sum {
		full.Sum[i] = uint64(1000 + i)
	}
	for i := range full.Latency {
		full.Latency[i] = uint32(2000 + i)
	}
	return []frame.Message{
		Ask{Rank: 70000, Key: "where", Least: 3, Fresh: true},
		Answer{Rank: 9, What: Found, Value: []byte{1, 2}}, Answer{Rank: 1 << 24, What: NoRank},
		Answer{Rank: 5, Key: "k", Fresh: true, Value: []byte("v")},
		Collect{Op: 1, What: AllGather, Parcels: NewParcels(Parcel{3, Everyone, []byte("x")}, Parcel{4, 0, nil})},
		Collect{Op: 3, What: Gather, Root: 7, Trouble: "rank 7 ended"},
		Release{Op: 9, What: Scatter, Root: 3, Trouble: "rank 3 ended"},
		Release{Op: 4, What: AllToAll, Parcels: NewParcels(Parcel{5, 6, []byte("y")})},
		Tally{&tally}, Tally{&full},
		Name{Rank: 7, ID: 3, Do: NameLookup, Service: "s", Port: "tag#0$", Wait: true, Done: true},
		Name{Do: NamePublish, Service: "s", Once: true},
		Notice{Host: "a", Text: "n"},
		SpawnJob{
			Rank: 9,
			Commands: NewCommands(
				Command{Argv: NewStrings("a", ""), Env: NewStrings("E=1"), Ranks: 3, Dir: "/d"},
				Command{Argv: NewStrings("b"), Ranks: 1},
			),
			Preput: NewPairs(job.KeyValue{Key: "PARENT_ROOT_PORT_NAME", Value: "tag#0$"}),
		},
		JobSpawned{Rank: 9, Refused: "why"}, JobSpawned{JobID: "0123456789abcdef", Namespace: "n"},
		Failures{Ranks: NewSlotSpans(SlotSpan{First: 3, Count: 2}, SlotSpan{First: 70000, Count: 1})},
		Follow{}, Follow{FollowEnd, 7},
	}
}

// ownSamples returns messages of all kinds that only a rank and its agent exchange, and Resize messages.
func ownSamples() []frame.Message {
	turns := job.NewLayout([]job.Share{{Nodes: 64, Ranks: 16}, {Nodes: 2, Ranks: 3}}).Dealt(4)
	order := job.NewLayout([]job.Share{{Nodes: 2, Ranks: 2}, {Nodes: 1, Ranks: 1}}).By([]job.NodeIndex{1, 2, 0, 0, 1})
	how := job.Transport{Fabric: "udp", Iface: "ib0", Eager: true, Learn: true, Why: "because", Stats: true,
		Verbose: true}
	more := how
	more.SL, more.PKey, more.GID, more.Poll = 3, 0x8001, 4, job.PollSpin
	var key fabric.Key
	for i := range key {
		key[i] = byte(100 + i)
	}
	return []frame.Message{
		Hello{}, Refused{"no"},
		Welcome{
			JobID: "a", Rank: 3, Epoch: 2, Op: 9, Layout: turns, Key: fabric.Key{7}, How: how, Path: "10.0.0.1",
			Restarts: true, Floor: job.Epoch(1, 1), Resizes: 3,
		},
		Welcome{JobID: "a", Layout: order, How: how}, Welcome{Layout: turns, Key: key, How: more},
		Publish{fabric.Tuple{Kind: fabric.IB, LID: 3, Num: 77}},
		Publish{fabric.Tuple{Kind: fabric.ROCE6, Rails: 2, Path: 1, Addr: [16]byte(key[:16]), Num: 5}},
		Put{Key: "k", Value: []byte("v")}, PutDone{Again: true}, Pair{Rank: 2, What: Failed},
		Abort{Code: 3, Text: "because"}, Finalize{}, Later{}, Wanted{},
		Rollback{"because"},
		Resize{Step: ResizeDone, Start: 3, Layout: turns}, Resize{Step: ResizeAgreed, Layout: order},
		Member{Number: 3, Size: 70000, Host: "h", Credit: 1 << 18, Ranks: NewLocalRanks(LocalRank{Rank: 300, Local: 2,
			PID: 70000})}, ToolPiece{Last: true, Data: []byte("hello")}, ToolRoom{N: 70000},
		Restarted{First: 70000, Count: 3, Epoch: job.Epoch(2, 1), Op: 9}, Restarted{Count: 1, Epoch: job.Epoch(1, 1)},
	}
}

// showOpaque returns the content of v if v is a layout, whose fields are unexported. Otherwise it returns nil.
func showOpaque(v any) any {
	if v, ok := v.(job.Layout); ok {
		return frametest.Layout(v)
	}
	return nil
}

// FuzzParse requires that each message has only one encoded form: a frame that can be decoded is encoded to the same
// bytes again.
func FuzzParse(f *testing.F) { suite().Fuzz(f) }

// view returns the elements of v if it is a list, and otherwise the result of showOpaque.
func view(v any) any {
	switch v := v.(type) {
	case frame.Values:
		return slices.Collect(v.All())
	case SlotSpans:
		return frametest.Elements(v)
	case Strings:
		return frametest.Elements(v)
	case Parcels:
		return frametest.Elements(v)
	case Pairs:
		return frametest.Elements(v)
	case Commands:
		return frametest.Elements(v)
	case LocalRanks:
		return frametest.Elements(v)
	case RankGroups:
		return frametest.Elements(v)
	case RankRows:
		return frametest.Elements(v)
	case FailedDaemons:
		return frametest.Elements(v)
	}
	return showOpaque(v)
}

func TestEveryKindRoundTrips(t *testing.T) { suite().RoundTrips(t) }

func TestDecodingIsStrict(t *testing.T) { suite().Strict(t) }

func TestReaderKnowsWhoSends(t *testing.T) { suite().Senders(t) }

func TestFieldsAreApart(t *testing.T) {
	tried := suite().Fields(t)
	require.Greater(t, tried[KindTally], int(job.Counts))
}

func TestProtocol(t *testing.T) {
	suite().Protocol(t, "../../../docs/dev/protocol.md", map[string]int{"job.Moments": int(job.Moments), "job.Counts": int(job.Counts)})
}

// welcome returns an encoded Welcome whose layout has two nodes with one rank each. The argument order is the encoded
// Order of the layout: the bytes Node, Nodes and Ranks of each element.
func welcome(plane byte, order ...byte) []byte {
	payload := []byte{byte(KindWelcome), 0, 0, 0, plane, 1, 2, 1, byte(len(order) / 3)}
	return append(append(payload, order...), make([]byte, 64)...)
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		frame []byte
		err   error
	}{
		"kind 0":            {[]byte{0}, frame.ErrKind},
		"an agent's kind":   {[]byte{1}, frame.ErrKind},
		"spawn of nothing":  {[]byte{byte(KindSpawnJob), 0, 0, 0}, frame.ErrRange},
		"spawn of 0 ranks":  {[]byte{byte(KindSpawnJob), 0, 1, 1, 1, 'a', 0, 0, 0}, frame.ErrRange},
		"collective 7":      {[]byte{byte(KindCollect), 1, 7, 0, 0, 0}, frame.ErrRange},
		"value that is not": {[]byte{byte(KindAnswer), 1, 0, 0, 1, 1, 7}, frame.ErrRange},
		"empty key":         {[]byte{byte(KindPut), 0, 1, 7}, frame.ErrRange},
		"long tuple":        {[]byte{byte(KindPublish), 2, 0xc0, 0}, frame.ErrRange},
		"failure of no one": {[]byte{byte(KindFailures), 0}, frame.ErrRange},
		"order of nodes":    {welcome(0, 0, 1, 1, 0, 1, 1, 1), frame.ErrCanonical},
		"order and turns":   {welcome(1, 1, 1, 1, 0, 1, 1), frame.ErrCanonical},
		"order of too many": {welcome(0, 1, 1, 1, 0, 1, 2), frame.ErrCanonical},
	} {
		_, err := Vocabulary.Parse(c.frame)
		require.ErrorIs(t, err, c.err, name)
	}
}
