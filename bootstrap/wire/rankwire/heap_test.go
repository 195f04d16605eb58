package rankwire

import (
	"strings"
	"testing"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/frame/frametest"
	"ibrun/internal/job"
)

func TestHeap(t *testing.T) { suite().Heap(t, 1<<18) }

// dense maps a kind to a function that returns messages of that kind. Each has an encoded form of about size bytes, and
// takes as much memory as possible when it is decoded (frametest.Suite.Dense).
var dense = map[frame.Kind]func(size int) []frame.Message{
	KindWelcome: func(size int) []frame.Message {
		return []frame.Message{Welcome{Layout: frametest.ManyShares(size / 2)}}
	},
	KindResize: func(size int) []frame.Message {
		return []frame.Message{Resize{Layout: frametest.ManyShares(size / 2)}}
	},
	KindCollect: func(size int) []frame.Message {
		return []frame.Message{Collect{Op: 1, Parcels: manyParcels(size)}}
	},
	KindRelease: func(size int) []frame.Message {
		return []frame.Message{Release{Op: 1, Parcels: manyParcels(size)}}
	},
	KindTally: func(int) []frame.Message {
		return []frame.Message{Tally{&job.Tally{Levels: make([]job.LevelTally, job.MaxLevels)}}}
	},
	KindFailures: func(size int) []frame.Message {
		spans := make([]SlotSpan, size/5) // adjacent spans in a list must be separated by a gap
		for i := range spans {
			spans[i] = SlotSpan{job.Slot(2 * i), 1}
		}
		return []frame.Message{Failures{Ranks: NewSlotSpans(spans...)}}
	},
	KindSpawnJob: func(int) []frame.Message {
		one := Command{Argv: NewStrings(""), Ranks: 1}
		argv := Command{Argv: frametest.Repeat[string, StringsCodec](maxSpawn-100, ""), Ranks: 1}
		many := frametest.Repeat[Command, CommandsCodec](maxSpawn/5, one)
		pairs := frametest.Repeat[job.KeyValue, PairsCodec](maxSpawn/2-100, job.KeyValue{})
		return []frame.Message{
			SpawnJob{Commands: NewCommands(argv)}, SpawnJob{Commands: many},
			SpawnJob{Commands: NewCommands(one), Preput: pairs},
		}
	},
	KindNotice: func(size int) []frame.Message { return []frame.Message{Notice{Text: strings.Repeat("x", size)}} },
	KindAsk:    func(int) []frame.Message { return []frame.Message{Ask{Key: strings.Repeat("x", MaxKey)}} },
	KindAnswer: func(int) []frame.Message { return []frame.Message{Answer{Value: make([]byte, MaxValue)}} },
	KindPut:    func(int) []frame.Message { return []frame.Message{Put{Key: "k", Value: make([]byte, MaxValue)}} },
	KindName: func(int) []frame.Message {
		return []frame.Message{Name{Service: strings.Repeat("x", maxService), Port: strings.Repeat("x", MaxPort)}}
	},
	KindAbort:    func(int) []frame.Message { return []frame.Message{Abort{Text: strings.Repeat("x", maxTrouble)}} },
	KindRollback: func(int) []frame.Message { return []frame.Message{Rollback{strings.Repeat("x", maxTrouble)}} },
	KindRefused:  func(int) []frame.Message { return []frame.Message{Refused{strings.Repeat("x", maxTrouble)}} },

	KindMember: func(size int) []frame.Message {
		return []frame.Message{Member{Size: 1, Ranks: NewLocalRanks(make([]LocalRank, size/3)...)}}
	},
	KindToolPiece: func(int) []frame.Message { return []frame.Message{ToolPiece{Data: make([]byte, MaxToolPiece)}} },

	KindToolRoom: nil, KindFollow: nil,
	KindJobSpawned: nil, KindHello: nil, KindPublish: nil, KindPutDone: nil, KindPair: nil, KindFinalize: nil,
	KindLater: nil, KindWanted: nil, KindRestarted: nil,
}

func manyParcels(size int) Parcels {
	return frametest.Repeat[Parcel, ParcelsCodec](size/3, Parcel{To: Everyone})
}
