package wire

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/job"
)

// dense are, of each kind, the frames that could cost most beside their length:
// as many elements as there is room for in some bytes, each as small as it can
// be. A kind that has nothing in it of which there can be many has its sample.
var dense = map[Kind]func(size int) (frames [][]byte){
	KindLaunch: denseLaunches,
	KindOffspring: func(size int) (frames [][]byte) {
		j := samples()[0].(Launch).Job
		alloc := job.NewNodes(0, []job.Run{{Prefix: "a", Count: 1}})
		many := Spawn{Commands: tiny[Command, commandCodec](maxSpawn/5, Command{Argv: NewStrings(""), Ranks: 1}), Preput: NewPairs()}
		return append(jobs(size, func(j *job.Job) Message {
			return Offspring{Job: j, Alloc: alloc, Spawn: samples()[len(samples())-3].(Offspring).Spawn}
		}), frame(Offspring{Job: j, Alloc: alloc, Spawn: many}))
	},
	KindWelcome: func(size int) [][]byte { return [][]byte{frame(Welcome{Layout: manyShares(size / 2)})} },
	KindExit: func(size int) [][]byte {
		runs := make([]job.StatusRun, min(size/6, job.MaxRanks))
		for i := range runs {
			runs[i] = job.StatusRun{First: job.Slot(i), Count: 1, Status: job.Status{Code: uint8(i)}}
		}
		return [][]byte{frame(Exit{Runs: NewEndings(runs...)})}
	},
	KindWaiting: func(int) [][]byte { return [][]byte{frame(Waiting{make([]Late, MaxLate)})} },
	KindCollect: func(size int) [][]byte { return [][]byte{frame(Collect{Op: 1, Parcels: manyParcels(size)})} },
	KindRelease: func(size int) [][]byte { return [][]byte{frame(Release{Op: 1, Parcels: manyParcels(size)})} },
	KindBlocks:  func(size int) [][]byte { return [][]byte{frame(Blocks{tiny[[]byte, valueCodec](size, nil)})} },
	KindBulkValues: func(size int) [][]byte {
		return [][]byte{frame(BulkValues{Fence: 1, Values: tiny[[]byte, valueCodec](size, nil)})}
	},
	KindTally: func(int) [][]byte {
		return [][]byte{frame(Tally{&job.Tally{Levels: make([]job.LevelTally, job.MaxLevels)}})}
	},
	KindPlaced: func(size int) [][]byte {
		return [][]byte{frame(Placed{Ranks: tiny[Placement, placementCodec](size/6, Placement{})})}
	},
	KindTimes: func(size int) [][]byte {
		return [][]byte{frame(Times{Nodes: tiny[job.NodeTimes, timingCodec](min(size/17, MaxTimes), job.NewNodeTimes(0))})}
	},
	KindSettled: func(size int) [][]byte {
		return [][]byte{frame(Settled{Dropped: everySecondNode(min(size/5, job.MaxNodes/2))})}
	},
	KindFailures: func(size int) [][]byte { return [][]byte{frame(Failures{Ranks: everySecondSlot(size / 5)})} },
	KindReturn: func(size int) [][]byte {
		return [][]byte{frame(Return{Part: job.Part{Nodes: manyRuns(size / 10)}})}
	},
	KindSpawn: func(int) [][]byte {
		argv := Command{Argv: tiny[string, stringCodec](maxSpawn-100, ""), Ranks: 1}
		many := tiny[Command, commandCodec](maxSpawn/5, Command{Argv: NewStrings(""), Ranks: 1})
		pairs := tiny[job.Pair, pairCodec](maxSpawn/2-100, job.Pair{})
		return [][]byte{
			frame(Spawn{Commands: NewCommands(argv)}), frame(Spawn{Commands: many}),
			frame(Spawn{Commands: NewCommands(Command{Argv: NewStrings(""), Ranks: 1}), Preput: pairs}),
		}
	},
	KindOutput: func(int) [][]byte { return [][]byte{frame(Output{Stream: 1, Data: make([]byte, MaxData)})} },
	KindStdin:  func(int) [][]byte { return [][]byte{frame(Stdin{Data: make([]byte, MaxData)})} },
	KindFault: func(size int) [][]byte {
		text := strings.Repeat("x", size/5)
		return [][]byte{frame(Fault{What: FaultLost, Host: text, Parent: text, Phase: text, Cause: text, Tail: text})}
	},
	KindNotice:  func(size int) [][]byte { return [][]byte{frame(Notice{Text: strings.Repeat("x", size)})} },
	KindAsk:     func(int) [][]byte { return [][]byte{frame(Ask{Key: strings.Repeat("x", MaxKey)})} },
	KindAnswer:  func(int) [][]byte { return [][]byte{frame(Answer{Value: make([]byte, MaxValue)})} },
	KindPut:     func(int) [][]byte { return [][]byte{frame(Put{Key: "k", Value: make([]byte, MaxValue)})} },
	KindName:    func(int) [][]byte { return [][]byte{frame(Name{Service: strings.Repeat("x", maxName)})} },
	KindAbort:   func(int) [][]byte { return [][]byte{frame(Abort{Text: strings.Repeat("x", maxTrouble)})} },
	KindRefused: func(int) [][]byte { return [][]byte{frame(Refused{strings.Repeat("x", maxTrouble)})} },
	KindReady:   nil, KindGrant: nil, KindStdinRoom: nil, KindSignal: nil, KindEnd: nil, KindHeartbeat: nil, KindBulkFetch: nil, KindSteal: nil, KindSpawned: nil,
	KindHello: nil, KindPublish: nil, KindPutDone: nil, KindPair: nil, KindFinalize: nil, KindLater: nil, KindWanted: nil,
}

// everySecondNode is n nodes of which no two touch.
func everySecondNode(n int) NodeSpans {
	spans := make([]NodeSpan, n)
	for i := range spans {
		spans[i] = NodeSpan{job.NodeIndex(2 * i), 1}
	}
	return NewNodeSpans(spans...)
}

// everySecondSlot is n slots of which no two touch.
func everySecondSlot(n int) SlotSpans {
	spans := make([]SlotSpan, n)
	for i := range spans {
		spans[i] = SlotSpan{job.Slot(2 * i), 1}
	}
	return NewSlotSpans(spans...)
}

// TestHeap holds the promise that a frame makes nobody keep more than twice its
// bytes, for each kind: a new kind needs a line in dense.
func TestHeap(t *testing.T) {
	size := 4 << 20
	for k := range kinds {
		kind := Kind(k)
		if kinds[k].parse == nil {
			continue
		}
		make, ok := dense[kind]
		require.True(t, ok, "what could cost most in a %v?", kind)
		var frames [][]byte
		if make != nil {
			frames = make(size)
		}
		for _, m := range samples() {
			if m.Kind() == kind {
				frames = append(frames, frame(m))
			}
		}
		require.NotEmpty(t, frames)
		for i, f := range frames {
			most := int64(2*len(f) + slack)
			if kinds[k].once {
				most += onceSlack
			}
			kept, err := kept(f)
			if err != nil {
				require.ErrorIs(t, err, ErrDense, "%v %d", kind, i)
				continue
			}
			require.LessOrEqual(t, kept, most, "bytes kept for %v %d of %d bytes", kind, i, len(f))
			if len(f) > 1<<20 {
				t.Logf("%v %d: %.2f times its %d bytes", kind, i, float64(kept)/float64(len(f)), len(f))
			}
		}
	}
}

// What comes in little pieces costs no more than what comes at once.
func TestHeapOfReading(t *testing.T) {
	f := frame(Notice{Text: strings.Repeat("x", 5<<20)})
	whole := binary.BigEndian.AppendUint32(nil, uint32(len(f)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := NewReader(io.MultiReader(bytes.NewReader(whole), bytes.NewReader(f[:len(f)-1])), Child).Next()
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(2*len(f)+slack))
}

// kept is what a message from a stream keeps on the heap.
func kept(frame []byte) (bytesKept int64, err error) {
	stream := binary.BigEndian.AppendUint32(nil, uint32(len(frame)))
	in := io.MultiReader(bytes.NewReader(stream), bytes.NewReader(frame))
	from := kinds[frame[0]].from
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m, err := NewReader(in, from).Next()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(m)
	runtime.KeepAlive(frame)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc), err
}

func frame(m Message) []byte { return Append(nil, m)[4:] }

// tiny is a list of so many equal elements.
func tiny[T any, C codec[T]](count int, element T) List[T, C] {
	var c C
	var w writer
	c.append(&w, element)
	return List[T, C]{count, [][]byte{bytes.Repeat(w, count)}}
}

func manyParcels(size int) Parcels { return tiny[Parcel, parcelCodec](size/3, Parcel{To: Everyone}) }

// manyShares is a layout of nodes of one rank and of two, in turn.
func manyShares(count int) job.Layout {
	shares := make([]job.Share, min(count, job.MaxNodes))
	for i := range shares {
		shares[i] = job.Share{Nodes: 1, Ranks: uint32(1 + i%2)}
	}
	return job.NewLayout(shares)
}

// manyRuns is nodes of names so short that there are that many.
func manyRuns(count int) job.Nodes {
	runs := make([]job.Run, min(count, job.MaxNodes))
	for i := range runs {
		runs[i] = job.Run{Prefix: "a", Count: 1, Ranks: uint32(1 + i%2)}
	}
	return job.NewNodes(0, runs)
}

// denseLaunches has jobs with much of each thing, nodes without a pattern, and a
// share in many pieces.
func denseLaunches(size int) (frames [][]byte) {
	one := job.NewNodes(0, []job.Run{{Prefix: "a", Count: 1, Ranks: 1}})
	frames = jobs(size, func(j *job.Job) Message { return Launch{Job: j, Nodes: one} })
	nodes := manyRuns(size / 10)
	j := *samples()[0].(Launch).Job
	of := func(nodes job.Nodes) *job.Job {
		j := j
		j.Layout = nodes.Layout()
		j.Nodes, j.Size = j.Layout.Nodes(), j.Layout.Ranks()
		j.Programs = []job.Program{{Count: j.Size, Argv: []string{"a"}}}
		return &j
	}
	parts := nodes.Slice(0, 2*MaxParts+1)
	l := Launch{Job: of(parts), Nodes: parts.Slice(0, 1)}
	for i := 2; i < parts.Len(); i += 2 {
		l.Share = append(l.Share, job.Part{First: job.NodeIndex(i), Nodes: parts.Slice(i, i+1)})
	}
	return append(frames, frame(Launch{Job: of(nodes), Nodes: nodes}), frame(l))
}

// jobs are jobs of a node with much of one thing each.
func jobs(size int, of func(*job.Job) Message) (frames [][]byte) {
	words := make([]string, size)
	for _, fill := range []func(j *job.Job){
		func(j *job.Job) { j.Programs[0].Argv = append(words, "a") },
		func(j *job.Job) { j.Programs[0].Env = words },
		func(j *job.Job) { j.Programs[0].Env = slices.Repeat([]string{"A=12345678"}, size/11) },
		func(j *job.Job) { j.Programs[0].Env = slices.Repeat([]string{"A=b"}, 1000) },
		func(j *job.Job) { j.Limits = make([]job.Limit, size/3) },
		func(j *job.Job) { j.Preput = make([]job.Pair, size/2) },
		func(j *job.Job) { j.Binding.CPUs = words },
		func(j *job.Job) {
			j.Layout = manyShares(size / 2)
			j.Nodes, j.Size = j.Layout.Nodes(), j.Layout.Ranks()
			j.Programs[0].Count = j.Size
		},
		func(j *job.Job) {
			j.Programs = make([]job.Program, min(size/8, job.MaxRanks))
			for i := range j.Programs {
				j.Programs[i] = job.Program{First: job.Rank(i), Count: 1, Argv: []string{""}}
			}
			j.Layout = job.NewLayout([]job.Share{{Nodes: uint32(len(j.Programs)), Ranks: 1}})
			j.Nodes, j.Size = j.Layout.Nodes(), j.Layout.Ranks()
		},
	} {
		j := &job.Job{ID: "j", Size: 1, Nodes: 1, Programs: []job.Program{{Count: 1, Argv: []string{"a"}}}, Layout: job.NewLayout([]job.Share{{Nodes: 1, Ranks: 1}})}
		fill(j)
		frames = append(frames, frame(of(j)))
	}
	return frames
}

// A job of a size that is used is not refused for its many small parts: 200,000
// words of a byte are 2 MiB with their pointers, which is what a program can be given.
func TestDenseEnough(t *testing.T) {
	for i, f := range denseLaunches(200 << 10) {
		_, err := Parse(f)
		require.NoError(t, err, i)
	}
}
