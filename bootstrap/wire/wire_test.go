package wire

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/job"
)

// samples has at least one message of each kind.
func samples() []Message {
	j := &job.Job{
		ID: "0123456789abcdef", Secret: [32]byte{1, 2, 31: 9}, Size: 1030, Nodes: 66, FirstHost: "node0001",
		Programs: []job.Program{
			{Count: 1000, Argv: []string{"./app", "", "a\nb'\"$(x)"}, Env: []string{"A=b", "X=\xff"}, Drop: []string{"SSH_*"}, Dir: "/w"},
			{First: 1000, Count: 20, App: 1, Argv: []string{"other", "%t"}, Expand: true, Dir: "/"},
			{First: 1020, Count: 10, App: 1, Offset: 20, Argv: []string{"other"}, Dir: "/"},
		},
		Umask: 0o22, Limits: []job.Limit{{Resource: 7, Soft: 1024, Hard: ^uint64(0)}},
		Output: job.Output{StdoutFile: "out.%r", Merge: true, Copy: true, Dirs: true, Lines: true, Terminal: true, Window: job.Window{Rows: 50, Cols: 132}}, Stdin: job.Stdin{Mode: job.StdinOne, Rank: 5},
		Launch: job.Launch{Launcher: "ssh", Args: []string{"-p", "22"}, SSH: "auto", Tree: "kary:8:7ms,172ms", Batch: 4, Timeout: 15 * time.Second, Grace: 2 * time.Second, Timed: true, Late: true, StartBarrier: true, KeepGoing: true},
	}
	j.Layout = job.NewLayout([]job.Share{{Nodes: 63, Ranks: 16}, {Nodes: 1, Ranks: 16}, {Nodes: 2, Ranks: 3}}).Dealt(4)
	j.Transport = job.Transport{Fabric: "udp", Iface: "ib0", Eager: true, Learn: true, Why: "because", Stats: true, Tell: true}
	j.Binding = job.Binding{Map: job.NUMA, Fill: true, Rank: job.Package, Bind: job.Core, PE: 2, PerObj: 4, CPUs: []string{"0-3", "7"}, Slots: []string{"0:1"}, Overload: true, HCA: "mlx5_0:1", Report: true, Topo: true, Data: true}
	j.MPI, j.PMIPort = job.MPIOpen, true
	j.Spawner, j.Depth, j.Preput = "p", 3, []job.Pair{{Key: "PARENT_ROOT_PORT_NAME", Value: "tag#0$"}}
	spawn := Spawn{Rank: 9, Commands: NewCommands(Command{Argv: NewStrings("a", ""), Ranks: 3, Dir: "/d"}, Command{Argv: NewStrings("b"), Ranks: 1}), Preput: NewPairs(j.Preput...)}
	tally := job.Tally{Levels: []job.LevelTally{{Asked: 1, Hit: 2, Own: 3, Merged: 4, Relayed: 5}}}
	tally.Sum[job.CountPeers], tally.Latency[9] = 1<<40, 4
	nodes := job.NewNodes(32, []job.Run{{Prefix: "node", Width: 4, Lo: 3, Count: 60, Ranks: 16}, {Prefix: "fat", Count: 1, User: "u", HCA: "mlx5_0:1", Slots: 64, Ranks: 16}})
	last := job.Part{First: 65, Nodes: job.NewNodes(1027, []job.Run{{Prefix: "n", Suffix: "-ib", Width: 1, Lo: 7, Count: 1, Ranks: 3}})}
	ordered := job.NewLayout([]job.Share{{Nodes: 2, Ranks: 2}, {Nodes: 1, Ranks: 1}}).By([]job.NodeIndex{1, 2, 0, 0, 1})
	return []Message{
		Launch{Job: j, Nodes: nodes, First: 2, Level: 3, Credit: 1 << 18, Share: []job.Part{last}},
		Steal{}, Return{Part: last, Barren: true, Phase: "connect", Cause: "refused"},
		Settled{FirstHost: "a", Dropped: NewNodeSpans(NodeSpan{First: 0, Count: 2}, NodeSpan{First: 7, Count: 1})},
		Failures{Ranks: NewSlotSpans(SlotSpan{First: 3, Count: 2}, SlotSpan{First: 70000, Count: 1})},
		Ready{Up: 63, Failed: 1}, Exit{Runs: NewEndings(job.StatusRun{First: 0, Count: 1023}, job.StatusRun{First: 1023, Count: 1, Status: job.Status{Kind: job.Signaled, Code: 11, Core: true}}), Truncated: 7, MPI: job.MPISeen{Spoke: true, Library: "libmpi.so.40"}},
		Output{Rank: 300, Stream: 2, Data: []byte("hello\n")}, Grant{N: 65536},
		Stdin{Data: []byte{0, 1, 2}}, Stdin{EOF: true}, Stdin{Window: job.Window{Rows: 24, Cols: 80}}, StdinRoom{N: 1}, Signal{Number: 10}, End{Signal: 15, GraceMs: 2000},
		Fault{What: FaultRank, Node: 7, Nodes: 1, Rank: 9, Count: 1, Status: job.Status{Kind: job.Signaled, Code: 9}, Awaited: true},
		Fault{What: FaultLost, Node: 7, Nodes: 3, Host: "node0008", Parent: "node0002", Phase: "agent", Cause: "gone", Tail: "last words", AgeMs: 3},
		Waiting{Items: []Late{{Node: 1, Host: "b", Phase: "connect", ForMs: 3100}}}, Heartbeat{},
		Ask{Rank: 70000, Key: "where", Least: 3, Fresh: true}, Answer{Rank: 9, What: Found, Value: []byte{1, 2}}, Answer{Rank: 1 << 24, What: NoRank},
		Collect{Op: 1, What: AllGather, Parcels: NewParcels(Parcel{3, Everyone, []byte("x")}, Parcel{4, 0, nil})}, Release{Op: 9, What: Scatter, Root: 3, Trouble: "rank 3 ended"},
		Blocks{Values: NewValues([]byte{1}, []byte{2, 3})}, Tally{&tally}, Hello{}, Refused{"no"},
		Welcome{JobID: "a", Rank: 3, Epoch: 2, Op: 9, Layout: j.Layout, Key: fabric.Key{7}, How: j.Transport, Path: "10.0.0.1"},
		Welcome{JobID: "a", Layout: ordered, How: j.Transport}, Publish{fabric.Tuple{Kind: fabric.IB, LID: 3, Num: 77}}, Put{Key: "k", Value: []byte("v")}, PutDone{Again: true}, Later{}, Wanted{}, Pair{Rank: 2, What: Failed},
		Abort{Code: 3, Text: "because"}, Finalize{},
		Notice{Host: "a", Text: "n"},
		Times{Span: 7 * time.Millisecond, Missing: 2, Nodes: NewTimings(slices.Values([]job.NodeTimes{job.NewNodeTimes(0), {Node: 70000, Parent: 1, Local: true, At: [job.Moments]time.Duration{3: time.Hour, 4: job.Never}, CPU: time.Second, Error: time.Microsecond}}))},
		BulkFetch{Fence: 3}, BulkValues{Fence: 70000, Values: NewValues([]byte{1}, []byte("two"))}, BulkValues{Fence: 1},
		spawn, Spawned{Rank: 9, Refused: "why"}, Spawned{JobID: "0123456789abcdef"},
		Offspring{Job: j, Alloc: nodes, Spawn: spawn, Tree: "auto", KillOnBad: true, Preflight: true, Wait: time.Second, Prefix: "%r ", Label: true, Timestamp: true, Quiet: true, Verbose: 2},
		Name{Rank: 7, Do: NameLookup, Service: "s", Port: "tag#0$", Done: true},
		Placed{Node: 3, Host: "a", Picture: "x\ny", Ranks: NewPlacements(Placement{Rank: 9, Ended: true, CPUs: "0-3", Mems: "0", Policy: "prefer 0", HCA: "mlx5_0:1", Drawing: "[BB]"})},
	}
}

func TestEveryKindRoundTrips(t *testing.T) {
	seen := map[Kind]bool{}
	var stream []byte
	for _, m := range samples() {
		seen[m.Kind()] = true
		frame := Append(nil, m)
		got, err := Parse(frame[4:])
		require.NoError(t, err, m.String())
		require.Equal(t, m, got)
		require.NotContains(t, m.String(), "\n")
		stream = append(stream, frame...)
	}
	for k := range kinds {
		require.Equal(t, kinds[k].parse != nil, seen[Kind(k)], "samples of %v", Kind(k))
		require.Equal(t, kinds[k].parse == nil, strings.Contains(Kind(k).String(), "("), "name of kind %d", k)
	}
	in := iotest.OneByteReader(bytes.NewReader(stream))
	for _, m := range samples() {
		got, err := NewReader(in, kinds[m.Kind()].from).Next()
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	_, err := NewReader(in, Parent).Next()
	require.Equal(t, io.EOF, err)
}

// A kind is refused by its number if its sender may not send it, or not again,
// and nothing is read or kept of it.
func TestReaderKnowsWhoSends(t *testing.T) {
	for _, m := range samples() {
		frame := Append(nil, m)
		for _, from := range []Sender{Parent, Child, Rank, Agent, Root} {
			r := NewReader(bytes.NewReader(slices.Concat(frame, frame)), from)
			_, err := r.Next()
			if !m.Kind().From(from) {
				require.ErrorIs(t, err, ErrKind, "%v from a %v", m, from)
				require.ErrorContains(t, err, from.String())
				continue
			}
			require.NoError(t, err)
			_, err = r.Next()
			if kinds[m.Kind()].once {
				require.ErrorIs(t, err, ErrAgain)
			} else {
				require.NoError(t, err)
			}
		}
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	m := samples()[0].(Launch)
	m.Job.Secret = [32]byte([]byte(strings.Repeat("s3cr", 8)))
	require.NotContains(t, m.String(), "s3cr")
	require.NotContains(t, m.String(), "A=b")
}

// welcome is one with a layout of two nodes with a rank each, and an order.
func welcome(plane byte, order ...byte) []byte {
	frame := []byte{byte(KindWelcome), 0, 0, 0, plane, 1, 2, 1, byte(len(order) / 3)}
	return append(append(frame, order...), make([]byte, 64)...)
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		frame []byte
		err   error
	}{
		"nothing":                {nil, ErrShort},
		"kind 0":                 {[]byte{0}, ErrKind},
		"unknown kind":           {[]byte{200}, ErrKind},
		"short":                  {[]byte{byte(KindReady), 1}, ErrShort},
		"trailing":               {[]byte{byte(KindHeartbeat), 0}, ErrTrailing},
		"long form of 1":         {[]byte{byte(KindGrant), 0x81, 0x00}, ErrCanonical},
		"33 bits":                {[]byte{byte(KindGrant), 0x80, 0x80, 0x80, 0x80, 0x10}, ErrRange},
		"stream 3":               {[]byte{byte(KindOutput), 0, 3, 1, 'x'}, ErrRange},
		"empty output":           {[]byte{byte(KindOutput), 0, 1, 0}, ErrRange},
		"empty input":            {[]byte{byte(KindStdin), 0, 0, 0, 0}, ErrRange},
		"seats of nothing":       {[]byte{byte(KindSettled), 0, 1, 3, 0}, ErrCanonical},
		"seats that touch":       {[]byte{byte(KindSettled), 0, 2, 3, 1, 4, 1}, ErrCanonical},
		"seats backwards":        {[]byte{byte(KindSettled), 0, 2, 3, 1, 1, 1}, ErrCanonical},
		"no nodes returned":      {[]byte{byte(KindReturn), 0, 0, 0, 0, 0, 0}, ErrRange},
		"spawn of nothing":       {[]byte{byte(KindSpawn), 0, 0, 0}, ErrRange},
		"spawn of 0 ranks":       {[]byte{byte(KindSpawn), 0, 1, 1, 1, 'a', 0, 0, 0}, ErrRange},
		"boolean 2":              {[]byte{byte(KindStdin), 2, 0}, ErrCanonical},
		"signal 65":              {[]byte{byte(KindSignal), 65}, ErrRange},
		"collective 6":           {[]byte{byte(KindCollect), 1, 6, 0, 0, 0}, ErrRange},
		"bulk fetch of fence 0":  {[]byte{byte(KindBulkFetch), 0}, ErrRange},
		"bulk values of fence 0": {[]byte{byte(KindBulkValues), 0, 0}, ErrRange},
		"value that is not":      {[]byte{byte(KindAnswer), 1, 0, 0, 1, 1, 7}, ErrRange},
		"empty key":              {[]byte{byte(KindPut), 0, 1, 7}, ErrRange},
		"long tuple":             {[]byte{byte(KindPublish), 2, 0xc0, 0}, ErrRange},
		"a billion runs":         {[]byte{byte(KindExit), 0, 0, 0, 0x80, 0x94, 0xeb, 0xdc, 0x03}, ErrShort},
		"order of nodes":         {welcome(0, 0, 1, 1, 0, 1, 1, 1), ErrCanonical},
		"order and turns":        {welcome(1, 1, 1, 1, 0, 1, 1), ErrCanonical},
		"order of too many":      {welcome(0, 1, 1, 1, 0, 1, 2), ErrCanonical},
		"output beyond frame":    {[]byte{byte(KindOutput), 0, 1, 100, 'x'}, ErrShort},
	} {
		_, err := Parse(c.frame)
		require.ErrorIs(t, err, c.err, name)
	}
}

// A frame that is announced and does not come costs little.
func TestReaderAllocatesWhatCame(t *testing.T) {
	head := []byte{0x03, 0xff, 0xff, 0xff, byte(KindPlaced)}
	body := bytes.Repeat([]byte{1}, 200<<10)
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := NewReader(io.MultiReader(bytes.NewReader(head), bytes.NewReader(body)), Child).Next()
			require.ErrorIs(b, err, io.ErrUnexpectedEOF)
		}
	}).AllocedBytesPerOp()
	require.Less(t, allocated, int64(2*len(body)+firstRead))
	_, err := NewReader(bytes.NewReader([]byte{0xff, 0, 0, 0}), Child).Next()
	require.ErrorIs(t, err, ErrSize)
}

// What parses is encoded to the same bytes: there is one form of each message.
func FuzzParse(f *testing.F) {
	for _, m := range samples() {
		f.Add(Append(nil, m)[4:])
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := Parse(frame)
		if err != nil {
			return
		}
		require.Equal(t, frame, Append(nil, m)[4:])
		_ = m.String()
		if l, ok := m.(Launch); ok {
			_ = l.Nodes.At(l.Nodes.Len() - 1)
		}
	})
}

// The table of docs/protocol.md has each kind with its number, and who sends it.
func TestKindsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/protocol.md")
	require.NoError(t, err)
	rows := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, " | "); len(cells) > 3 {
			rows[strings.TrimPrefix(cells[0], "| ")+" "+cells[1]] = cells[2]
		}
	}
	for k := range kinds {
		if kinds[k].parse == nil {
			continue
		}
		var from Sender
		says := rows[fmt.Sprintf("%d %s", k, kinds[k].name)]
		for words, senders := range map[string]Sender{
			"down": Parent, "up": Child, "both;": Parent | Child, "from a rank": Rank, "to a rank": Agent, "with a rank": Rank | Agent, "between roots": Root,
		} {
			if strings.Contains(says+";", words) {
				from |= senders
			}
		}
		require.Equal(t, kinds[k].from, from, "%v is %q", Kind(k), says)
	}
}
