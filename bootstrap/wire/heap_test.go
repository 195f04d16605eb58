package wire

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/ccs"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/frame/frametest"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

func TestHeap(t *testing.T) { suite().Heap(t, 1<<18) }

// dense maps a kind to a function that returns messages of that kind. Each has an encoded form of about size bytes, and
// takes as much memory as possible when it is decoded (frametest.Suite.Dense).
var dense = map[frame.Kind]func(size int) []frame.Message{
	KindLaunch: denseLaunches,
	KindOffspring: func(size int) []frame.Message {
		j := samples()[0].(Launch).Job
		alloc := job.NewNodes(0, []job.Run{{Prefix: "a", Count: 1}})
		program := []rankwire.Command{{Argv: rankwire.NewStrings(""), Ranks: 1}}
		one := rankwire.SpawnJob{Commands: rankwire.NewCommands(program...)}
		many := rankwire.SpawnJob{Commands: rankwire.NewCommands(slices.Repeat(program, size/5)...)}
		return append(jobs(size, func(j *job.Job) frame.Message {
			return Offspring{Job: j, Alloc: alloc, Spawn: one}
		}), Offspring{Job: j, Alloc: alloc, Spawn: many})
	},
	KindExit: func(size int) []frame.Message {
		runs := make([]job.StatusRun, min(size/6, job.MaxRanks))
		for i := range runs {
			runs[i] = job.StatusRun{First: job.Slot(i), Count: 1, Status: job.Status{Code: uint8(i)}}
		}
		return []frame.Message{Exit{Runs: NewEndings(runs...)}}
	},
	KindWaiting: func(int) []frame.Message {
		return []frame.Message{Waiting{make([]SlowSession, MaxSlowSessions)}}
	},
	KindBlocks: func(size int) []frame.Message {
		return []frame.Message{Blocks{frametest.Repeat[[]byte, frame.ValueCodec](size, nil)}}
	},
	KindBulkValues: func(size int) []frame.Message {
		return []frame.Message{BulkValues{Fence: 1, Values: frametest.Repeat[[]byte, frame.ValueCodec](size, nil)}}
	},
	KindTableValues: func(size int) []frame.Message {
		return []frame.Message{TableValues{Round: 1, Values: frametest.Repeat[[]byte, frame.ValueCodec](size, nil)}}
	},
	KindPlaced: func(size int) []frame.Message {
		return []frame.Message{Placed{Ranks: frametest.Repeat[Placement, PlacementsCodec](size/6, Placement{})}}
	},
	KindTimes: func(size int) []frame.Message {
		count := min(size/17, MaxTimes)
		return []frame.Message{Times{
			Nodes: frametest.Repeat[job.NodeTimes, TimingsCodec](count, job.NewNodeTimes(0)),
		}}
	},
	KindMembership: func(size int) []frame.Message {
		return []frame.Message{Membership{Dropped: everySecondNode(min(size/5, job.MaxNodes/2))}}
	},
	KindReturn: func(size int) []frame.Message {
		return []frame.Message{Return{Part: job.Part{Nodes: manyRuns(size / 10)}}}
	},
	KindOutput: func(int) []frame.Message { return []frame.Message{Output{Stream: 1, Data: make([]byte, MaxData)}} },
	KindStdin:  func(int) []frame.Message { return []frame.Message{Stdin{Data: make([]byte, MaxData)}} },
	KindFault: func(size int) []frame.Message {
		text := strings.Repeat("x", size/5)
		return []frame.Message{Fault{What: FaultLost, Host: text, Parent: text, Phase: text, Cause: text, Tail: text}}
	},
	KindSweep: func(size int) []frame.Message { return []frame.Message{Sweep{Job: strings.Repeat("x", size)}} },
	KindRespawned: func(size int) []frame.Message {
		return []frame.Message{Respawned{Count: 1, Cause: strings.Repeat("x", size)}}
	},
	KindRecalled: func(size int) []frame.Message {
		return []frame.Message{Recalled{Cause: strings.Repeat("x", size)}}
	},
	KindReplaced: func(size int) []frame.Message {
		return []frame.Message{Replaced{Cause: strings.Repeat("x", size)}}
	},
	KindReplace: func(size int) []frame.Message {
		one := job.Run{Prefix: strings.Repeat("x", size), Count: 1}
		return []frame.Message{Replace{Part: job.Part{Nodes: job.NewNodes(0, []job.Run{one})}}}
	},
	KindStanding: func(size int) []frame.Message { return []frame.Message{Standing{Floors: manyFloors(size)}} },
	KindEnter:    func(size int) []frame.Message { return []frame.Message{Enter{Floors: manyFloors(size)}} },
	KindBelow: func(int) []frame.Message {
		m := Below{}
		for i := range MaxBelow {
			one := job.NewNodes(0, []job.Run{{Prefix: "a", Count: 1, Ranks: 1}})
			m.Parts = append(m.Parts, job.Part{First: job.NodeIndex(2 * i), Nodes: one})
		}
		return []frame.Message{m}
	},
	KindJoin:   func(size int) []frame.Message { return []frame.Message{Join{Job: strings.Repeat("x", size)}} },
	KindJoined: nil, KindResume: nil, KindState: nil, KindPassed: nil,
	KindReport: func(size int) []frame.Message {
		text := strings.Repeat("x", size/5)
		return []frame.Message{Report{Serial: 1, Fault: Fault{What: FaultLost, Host: text, Cause: text, Tail: text}}}
	},
	KindChunk: func(int) []frame.Message {
		return []frame.Message{Chunk{Output: Output{Stream: 1, Data: make([]byte, MaxData)}}}
	},
	KindQuery: func(size int) []frame.Message {
		q := rankwire.Question{What: rankwire.LookAtRanks, Ranks: everySecondRank(size / 5)}
		return []frame.Message{Query{Question: q}}
	},
	KindReply: func(int) []frame.Message {
		groups := make([]rankwire.RankGroup, rankwire.MaxGroups)
		for i := range groups {
			groups[i] = rankwire.RankGroup{Text: strings.Repeat("x", rankwire.MaxStack),
				Ranks: everySecondRank(rankwire.MaxSpans)}
		}
		return []frame.Message{Reply{Standings: rankwire.Standings{Groups: rankwire.NewRankGroups(groups...),
			Rows: rankwire.NewRankRows(make([]rankwire.RankRow, rankwire.MaxRows)...)}}}
	},
	KindDaemons: func(size int) []frame.Message {
		argv := rankwire.NewStrings(make([]string, size)...)
		return []frame.Message{
			Daemons{Argv: argv},
			Daemons{Argv: rankwire.NewStrings("a"), Nodes: everySecondNode(min(size/5, job.MaxNodes/2))},
		}
	},
	KindDaemonOutput: func(int) []frame.Message {
		return []frame.Message{DaemonOutput{Stream: 1, Data: make([]byte, MaxData)}}
	},
	KindDaemonsEnded: func(int) []frame.Message {
		failed := make([]rankwire.FailedDaemon, rankwire.MaxFailedDaemons)
		text := strings.Repeat("x", rankwire.MaxDaemonText)
		for i := range failed {
			failed[i] = rankwire.FailedDaemon{Host: text, Cause: text}
		}
		return []frame.Message{
			DaemonsEnded{DaemonEnds: rankwire.DaemonEnds{Failed: rankwire.NewFailedDaemons(failed...)}},
			DaemonsEnded{DaemonEnds: rankwire.DaemonEnds{
				Failed: rankwire.NewFailedDaemons(make([]rankwire.FailedDaemon, rankwire.MaxFailedDaemons)...),
			}},
		}
	},
	KindCCSRequest: func(int) []frame.Message {
		return []frame.Message{CCSRequest{Request: ccs.Request{Handler: "h", Data: make([]byte, ccs.MaxRequest)}}}
	},
	KindCCSReply: func(size int) []frame.Message {
		return []frame.Message{CCSReply{Data: make([]byte, min(size, ccs.MaxReply))}}
	},
	KindDaemonGrant: nil, KindDaemonsEnd: nil, KindSessionRoom: nil, KindDaemonRoom: nil,
	KindDaemonInput: func(int) []frame.Message {
		return []frame.Message{DaemonInput{Stdin: Stdin{Data: make([]byte, MaxData)}}}
	},
	KindSession: func(size int) []frame.Message {
		spans := make([]MemberSpan, min(size/5, job.MaxNodes/2))
		for i := range spans {
			spans[i] = MemberSpan{Nodes: NodeSpan{First: job.NodeIndex(2 * i), Count: 1}, Each: 1}
		}
		one := NewMemberSpans(MemberSpan{Nodes: NodeSpan{Count: 1}, Each: 1})
		return []frame.Message{
			Session{Members: NewMemberSpans(spans...), Argv: rankwire.NewStrings("a")},
			Session{Members: one, Argv: rankwire.NewStrings(make([]string, size)...)},
		}
	},
	KindSessionCollect: func(size int) []frame.Message {
		return []frame.Message{SessionCollect{Part: rankwire.Collect{Op: 1, Parcels: manyParcels(size)}}}
	},
	KindSessionRelease: func(size int) []frame.Message {
		return []frame.Message{SessionRelease{Part: rankwire.Release{Op: 1, Parcels: manyParcels(size)}}}
	},
	KindSessionPiece: func(int) []frame.Message {
		return []frame.Message{SessionPiece{Data: rankwire.ToolPiece{Data: make([]byte, rankwire.MaxToolPiece)}}}
	},
	KindSwept: func(size int) []frame.Message { return []frame.Message{Swept{Left: strings.Repeat("x", size)}} },

	KindReady: nil, KindGrant: nil, KindStdinRoom: nil, KindSignal: nil, KindEnd: nil, KindHeartbeat: nil,
	KindBulkFetch: nil, KindTableFetch: nil, KindSteal: nil, KindDeparted: nil, KindFloor: nil, KindFloorSet: nil,
	KindRespawn: nil, KindRecall: nil, KindRest: nil,
}

// everySecondNode is n nodes of which no two touch.
func everySecondNode(n int) NodeSpans {
	spans := make([]NodeSpan, n)
	for i := range spans {
		spans[i] = NodeSpan{job.NodeIndex(2 * i), 1}
	}
	return NewNodeSpans(spans...)
}

// manyParcels are as many as fit, one byte of value each.
func manyParcels(size int) rankwire.Parcels {
	parcels := make([]rankwire.Parcel, min(size, rankwire.MaxGather)/8)
	for i := range parcels {
		parcels[i] = rankwire.Parcel{Value: []byte{1}}
	}
	return rankwire.NewParcels(parcels...)
}

// everySecondRank returns n spans of one rank each, with a gap of one rank between neighbours.
func everySecondRank(n int) rankwire.SlotSpans {
	spans := make([]rankwire.SlotSpan, min(n, job.MaxRanks/2))
	for i := range spans {
		spans[i] = rankwire.SlotSpan{First: job.Slot(2 * i), Count: 1}
	}
	return rankwire.NewSlotSpans(spans...)
}

// manyRuns returns count nodes that are encoded as one run each. The encoded form of a run has ten bytes.
func manyRuns(count int) job.Nodes {
	runs := make([]job.Run, min(count, job.MaxNodes))
	for i := range runs {
		runs[i] = job.Run{Prefix: "a", Count: 1, Ranks: uint32(1 + i%2)}
	}
	return job.NewNodes(0, runs)
}

// denseLaunches returns Launch messages of about size bytes: one for each job that the function jobs makes, one whose
// nodes are encoded as one run each, and one with the maximum number of parts in Share.
func denseLaunches(size int) (all []frame.Message) {
	one := job.NewNodes(0, []job.Run{{Prefix: "a", Count: 1, Ranks: 1}})
	all = jobs(size, func(j *job.Job) frame.Message { return Launch{Job: j, Nodes: one} })
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
	return append(all, Launch{Job: of(nodes), Nodes: nodes}, l)
}

// jobs makes jobs in each of which one field has as many elements as fit into size bytes. It passes each job to the
// function of, and returns the resulting messages.
func jobs(size int, of func(*job.Job) frame.Message) (all []frame.Message) {
	words := make([]string, size)
	for _, fill := range []func(j *job.Job){
		func(j *job.Job) { j.Programs[0].Argv = append(words, "a") },
		func(j *job.Job) { j.Programs[0].Env = words },
		func(j *job.Job) { j.Programs[0].Env = slices.Repeat([]string{"A=12345678"}, size/11) },
		func(j *job.Job) { j.Programs[0].Env = slices.Repeat([]string{"A=b"}, 1000) },
		func(j *job.Job) { j.Limits = make([]job.Limit, size/3) },
		func(j *job.Job) { j.Preput = make([]job.KeyValue, size/2) },
		func(j *job.Job) { j.Binding.CPUs = words },
		func(j *job.Job) {
			j.Layout = frametest.ManyShares(size / 2)
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
		j := &job.Job{ID: "j", Size: 1, Nodes: 1, Programs: []job.Program{{Count: 1, Argv: []string{"a"}}},
			Layout: job.NewLayout([]job.Share{{Nodes: 1, Ranks: 1}})}
		fill(j)
		all = append(all, of(j))
	}
	return all
}

// TestDenseEnough checks that the limit on the memory of a decoded Launch permits as many arguments as Linux does by
// default: 2 MiB, which 200,000 arguments of one byte take together with their pointers.
func TestDenseEnough(t *testing.T) {
	for i, m := range denseLaunches(200 << 10) {
		require.NoError(t, Vocabulary.Check(m, 0), i)
	}
}

func manyFloors(size int) []RankFloor {
	floors := make([]RankFloor, size/8)
	for i := range floors {
		floors[i] = RankFloor{job.Slot(i), job.Epoch(1, 1)}
	}
	return floors
}
