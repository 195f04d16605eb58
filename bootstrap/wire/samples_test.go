package wire

import (
	"time"

	"ibrun/bootstrap/ccs"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/frame/frametest"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// suite returns the inputs for the tests of Vocabulary, with at least one sample of each kind of message.
func suite() frametest.Suite {
	return frametest.Suite{
		Vocabulary: Vocabulary, Speakers: frame.Parent | frame.Child | frame.Root,
		Samples: append(samples(), moreSamples()...), Borrowed: relayedSamples(),
		View: view, Dense: dense, Look: func(m frame.Message) {
			if l, ok := m.(Launch); ok {
				_ = l.Nodes.At(l.Nodes.Len() - 1)
			}
		},
	}
}

// relayedSamples returns a message of each kind of package rankwire that agents relay.
func relayedSamples() []frame.Message {
	return []frame.Message{
		rankwire.Ask{Rank: 70000}, rankwire.Answer{What: rankwire.NoRank}, rankwire.Collect{Op: 1},
		rankwire.Release{Op: 1}, rankwire.Tally{Of: &job.Tally{}}, rankwire.Name{Service: "s"},
		rankwire.Notice{Text: "n"}, rankwire.JobSpawned{Rank: 9},
		rankwire.SpawnJob{Commands: rankwire.NewCommands(
			rankwire.Command{Argv: rankwire.NewStrings("a"), Ranks: 1},
		)},
		rankwire.Failures{Ranks: rankwire.NewSlotSpans(rankwire.SlotSpan{First: 3, Count: 2})},
		rankwire.Follow{Step: rankwire.FollowResize},
		rankwire.Resize{Layout: job.NewLayout([]job.Share{{Nodes: 2, Ranks: 3}})},
	}
}

// samples has a message of each kind that agents say among themselves.
func samples() []frame.Message {
	j := &job.Job{
		ID: "0123456789abcdef", Secret: [32]byte{1, 2, 31: 9}, Size: 1030, Nodes: 66, FirstHost: "node0001",
		Programs: []job.Program{
			{Count: 1000, Argv: []string{"./app", "", "a\nb'\"$(x)"}, Env: []string{"A=b", "X=\xff"},
				Drop: []string{"SSH_*"}, Dir: "/w"},
			{First: 1000, Count: 20, App: 1, Argv: []string{"other", "%t"}, Expand: true, Dir: "/"},
			{First: 1020, Count: 10, App: 1, Offset: 20, Argv: []string{"other"}, Dir: "/"},
		},
		Umask: 0o22, Limits: []job.Limit{{Resource: 7, Soft: 1024, Hard: ^uint64(0)}},
		Output: job.Output{StdoutFile: "out.%r", Merge: true, Copy: true, Dirs: true, Lines: true, Terminal: true,
			Window: job.Window{Rows: 50, Cols: 132}}, Stdin: job.Stdin{Mode: job.StdinOne, Rank: 5},
		Launch: job.LaunchOptions{Launcher: "ssh", Args: []string{"-p", "22"}, SSH: "auto", Tree: "kary:8:7ms,172ms",
			Batch: 4, Timeout: 15 * time.Second, Grace: 2 * time.Second, Timed: true, LateBinding: true,
			StartBarrier: true, KeepGoing: true, Contain: true, TraceEvents: "/tmp/events", Restarts: true, Repair: true,
			RestartAll: true, Starter: []string{"srun", "--nodelist=%h", "--het-group=%n"},
			Numbers: []job.NumberedHosts{{Hosts: "n[1-2]", First: 1, Step: 1}}},
	}
	j.Layout = job.NewLayout([]job.Share{{Nodes: 63, Ranks: 16}, {Nodes: 1, Ranks: 16}, {Nodes: 2, Ranks: 3}}).Dealt(4)
	j.Transport = job.Transport{Fabric: "udp", Iface: "ib0", Eager: true, Learn: true, Why: "because", Stats: true,
		Verbose: true}
	j.Binding = job.Binding{Map: job.NUMA, Fill: true, Rank: job.Package, Bind: job.Core, PE: 2, PerObj: 4,
		CPUs: []string{"0-3", "7"}, Slots: []string{"0:1"}, Overload: true, HCA: "mlx5_0:1", Report: true, Topo: true,
		Data: true}
	j.MPI, j.PMIPort = job.MPIOpen, true
	j.Spawner, j.Depth, j.Preput = "p", 3, []job.KeyValue{{Key: "PARENT_ROOT_PORT_NAME", Value: "tag#0$"}}
	j.Own = []job.RankVariable{{Name: "SLURM_PROCID", Fact: job.OwnRank}, {Name: "SLURM_NTASKS", Fact: job.AllRanks}}
	spawn := rankwire.SpawnJob{Rank: 9, Commands: rankwire.NewCommands(rankwire.Command{Argv: rankwire.NewStrings("a",
		""), Env: rankwire.NewStrings("E=1"), Ranks: 3, Dir: "/d"},
		rankwire.Command{Argv: rankwire.NewStrings("b"), Ranks: 1}),
		Preput: rankwire.NewPairs(j.Preput...)}
	j.Hosts = "node[0001-0063],n[7-9]"
	nodes := job.NewNodes(32, []job.Run{{Prefix: "node", Width: 4, Lo: 3, Count: 60, Ranks: 16},
		{Prefix: "fat", Count: 1, User: "u", HCA: "mlx5_0:1", Slots: 64, Ranks: 16}})
	last := job.Part{First: 65, Nodes: job.NewNodes(1027,
		[]job.Run{{Prefix: "n", Suffix: "-ib", Width: 1, Lo: 7, Count: 1, Ranks: 3}})}
	return []frame.Message{
		Launch{Job: j, Nodes: nodes, First: 2, Level: 3, Credit: 1 << 18, SessionMs: 1_500, Replaces: true,
			Share: []job.Part{last}},
		Sweep{Job: "0123456789abcdef", Node: 7, GraceMs: 2000}, Swept{Killed: 3, Left: "process 9"},
		Floor{Serial: 3, Op: 1 << 20, First: 70000, Count: 2, Epoch: job.Epoch(3, 1)}, FloorSet{Serial: 3},
		Respawn{Serial: 3, First: 70000, Count: 2, Epoch: job.Epoch(3, 1)},
		Respawned{Serial: 3, First: 70000, Count: 2, Code: 126, Cause: "why"},
		Recall{Serial: 2, GraceMs: 2000}, Recalled{Serial: 2, Cause: "why"}, Rest{Serial: 3},
		Replace{Number: 4, Part: last},
		Replaced{Number: 4, Node: 65, Cause: "why"},
		Standing{Number: 4, Signals: 5, Serial: 3, Op: 1 << 20, Recall: 2, Everyone: job.Epoch(1, 1),
			Floors: []RankFloor{{Rank: 70000, Epoch: job.Epoch(3, 1)}, {Rank: 70001, Epoch: job.Epoch(2, 1)}}},
		Below{Left: 2, Key: 64, Head: 65, Parts: []job.Part{last}}, Below{},
		Join{Job: "0123456789abcdef", Key: 7, Level: 3, Lines: true}, Joined{How: JoinedOther}, Resume{Credit: 1 << 18},
		State{Signals: 1, Input: 2, Held: 3, Released: 4, Floor: 5, Respawn: 6, Replaces: 7, Begun: true},
		Report{Node: 7, Serial: 3, Repaired: true, Fault: Fault{What: FaultLost, Node: 7, Nodes: 1, Host: "a"}},
		Passed{Node: 7, Serial: 3}, Chunk{At: 1 << 33, Output: Output{Rank: 300, Stream: 2, Data: []byte("hello")}},
		Query{ID: 3, Question: rankwire.Question{What: rankwire.SendSignal, Signal: 10,
			Rows: 7, PatienceMs: 2000, Ranks: rankwire.NewSlotSpans(rankwire.SlotSpan{First: 3, Count: 2})}},
		Query{ID: 4, Question: rankwire.Question{What: rankwire.LookAtRanks}},
		Reply{ID: 3, Standings: rankwire.Standings{Nodes: 5, Silent: 1, Cut: 2, More: 3,
			Groups: rankwire.NewRankGroups(rankwire.RankGroup{State: rankwire.Waits, Op: 7, Call: rankwire.Gather,
				Text: "poll", Count: 9, AgeMs: 5, CPUMs: 6, Memory: 1 << 40,
				Ranks: rankwire.NewSlotSpans(rankwire.SlotSpan{First: 3, Count: 2})}),
			Rows: rankwire.NewRankRows(rankwire.RankRow{Rank: 70000, Host: "h", PID: 4, State: rankwire.Waits, Op: 7,
				Call: rankwire.Gather, AgeMs: 5, Kernel: 'S', CPUMs: 6, Busy: 1000, Memory: 1 << 40, CPUs: "0-3",
				HCA: "mlx5_0:1", Waits: "poll"})}},
		Daemons{ID: 3, PerRank: true, Nodes: NewNodeSpans(NodeSpan{First: 2, Count: 3}),
			Argv: rankwire.NewStrings("a", ""), Credit: 1 << 16}, Daemons{ID: 4, Argv: rankwire.NewStrings("a")},
		Daemons{ID: 5, PerRank: true, Nodes: NewNodeSpans(NodeSpan{First: 2, Count: 1}), Argv: rankwire.NewStrings("a"),
			Input: DebugsByTerminal, OfRank: 70000, Window: job.Window{Rows: 24, Cols: 80}},
		DaemonInput{ID: 3, Stdin: Stdin{Data: []byte("hello"), EOF: true, Window: job.Window{Rows: 24, Cols: 80}}},
		DaemonRoom{ID: 3, N: 70000},
		DaemonOutput{ID: 3, Number: 70000, Stream: 2, Data: []byte("hello")}, DaemonGrant{ID: 3, N: 1 << 16},
		Enter{Op: 9, Start: 2, Resizes: 5, Floors: []RankFloor{{Rank: 6, Epoch: job.Epoch(2, 1)}}}, Departed{},
		Session{ID: 3, Members: NewMemberSpans(MemberSpan{Nodes: NodeSpan{First: 2, Count: 3}, Each: 2},
			MemberSpan{Nodes: NodeSpan{First: 5, Count: 1}, Each: 4}), PerRank: true,
			Argv: rankwire.NewStrings("a", ""), Env: rankwire.NewStrings("A=b"), Credit: 1 << 16},
		SessionCollect{ID: 3, Part: rankwire.Collect{Op: 2, What: rankwire.Gather, Root: 1,
			Parcels: rankwire.NewParcels(rankwire.Parcel{From: 1, To: 2, Value: []byte("v")})}},
		SessionCollect{ID: 3, Part: rankwire.Collect{Trouble: "t"}},
		SessionRelease{ID: 3, Part: rankwire.Release{Op: 2, Root: 3, Trouble: "t"}},
		SessionRelease{ID: 3, Part: rankwire.Release{What: rankwire.Scatter, Parcels: rankwire.NewParcels(
			rankwire.Parcel{From: 1, To: 2, Value: []byte("v")})}},
		SessionPiece{ID: 3, Data: rankwire.ToolPiece{Last: true, Data: []byte("hello")}}, SessionRoom{ID: 3, N: 70000},
		DaemonsEnd{ID: 3}, DaemonsEnded{ID: 3, DaemonEnds: rankwire.DaemonEnds{Daemons: 5, Over: 1, Lost: 2, Code: 137,
			More: 3, Dropped: 1 << 40, Failed: rankwire.NewFailedDaemons(rankwire.FailedDaemon{Number: 70000, Host: "h",
				Status: job.Status{Kind: job.Signaled, Code: 11, Core: true}, Cause: "c"})}},
		CCSRequest{ID: 3, Rank: 70000, Request: ccs.Request{Handler: "h", PE: 7, Data: []byte("data")}},
		CCSReply{ID: 3, Rank: 70000, Data: []byte("data")}, CCSReply{ID: 4, Trouble: "why"},
		Steal{}, Return{Part: last, Barren: true, Phase: "connect", Cause: "refused"},
		Membership{FirstHost: "a", Dropped: NewNodeSpans(NodeSpan{First: 0, Count: 2}, NodeSpan{First: 7, Count: 1}),
			Hosts: "a,b"},
		Ready{Up: 63, Failed: 1}, Exit{Runs: NewEndings(job.StatusRun{First: 0, Count: 1023},
			job.StatusRun{First: 1023, Count: 1, Status: job.Status{Kind: job.Signaled, Code: 11, Core: true}}),
			Truncated: 7, MPI: job.MPIFindings{SpokePMI: true, Library: "libmpi.so.40"}},
		Output{Rank: 300, Stream: 2, Data: []byte("hello\n")}, Grant{N: 65536},
		Stdin{Data: []byte{0, 1, 2}}, Stdin{EOF: true}, Stdin{Window: job.Window{Rows: 24, Cols: 80}}, StdinRoom{N: 1},
		Signal{Number: 10}, End{Signal: 15, GraceMs: 2000},
		Fault{What: FaultRank, Node: 7, Nodes: 1, Rank: 9, Count: 1, Status: job.Status{Kind: job.Signaled, Code: 9},
			Awaited: true, Excused: true, SilentMs: 6100},
		Fault{What: FaultLost, Node: 7, Nodes: 3, Host: "node0008", Parent: "node0002", Phase: "agent", Cause: "gone",
			Tail: "last words", AgeMs: 3},
		Waiting{Items: []SlowSession{{Node: 1, Host: "b", Phase: "connect", ForMs: 3100}}}, Heartbeat{},
		Blocks{Values: frame.NewValues([]byte{1}, []byte{2, 3})},
		Times{Span: 7 * time.Millisecond, Missing: 2,
			Nodes: NewTimings(job.NewNodeTimes(0),
				job.NodeTimes{Node: 70000, Parent: 1, Local: true, At: [job.Moments]time.Duration{3: time.Hour, 4: job.Never},
					CPU: time.Second, Error: time.Microsecond})},
		BulkFetch{Fence: 3}, BulkValues{Fence: 70000, Values: frame.NewValues([]byte{1}, []byte("two"))},
		BulkValues{Fence: 1}, TableFetch{Round: 70000},
		TableValues{Round: 1, Values: frame.NewValues([]byte{1}, []byte("two"))},
		Offspring{Job: j, Alloc: nodes, Spawn: spawn, Tree: "auto", KillOnBad: true, Preflight: true, Wait: time.Second,
			Prefix: "%r ", Label: true, Timestamp: true, Quiet: true, Verbose: 2},
		Placed{Node: 3, Host: "a", Picture: "x\ny",
			Ranks: NewPlacements(Placement{Rank: 9, Ended: true, CPUs: "0-3", Mems: "0", Policy: "prefer 0",
				HCA: "mlx5_0:1", Drawing: "[BB]"})},
	}
}

// moreSamples returns messages in which the fields that are zero in all results of samples are not zero.
func moreSamples() []frame.Message {
	full := *samples()[0].(Launch).Job
	for i := range full.Secret {
		full.Secret[i] = byte(100 + i)
	}
	full.Output.StderrFile, full.Output.StdinFile, full.Output.Unbuffered = "err.%r", "in.%r", true
	full.Launch.Exec, full.Launch.AgentPath, full.Launch.Verbose = []string{"rsh", "-4"}, "/opt/ibrun", true
	full.Launch.Hold = true
	full.Transport.SL, full.Transport.PKey, full.Transport.GID, full.Transport.Poll = 3, 0x8001, 4, job.PollSpin
	ordered := full
	ordered.Size, ordered.Nodes, ordered.Programs = 5, 3, []job.Program{{Count: 5, Argv: []string{"a"}}}
	ordered.Layout = job.NewLayout([]job.Share{{Nodes: 2, Ranks: 2}, {Nodes: 1, Ranks: 1}}).By([]job.NodeIndex{1, 2, 0,
		0, 1})
	run := job.Run{Prefix: "n", Suffix: "-ib", Width: 2, Lo: 7, Count: 1, User: "u", HCA: "mlx5_0:2", Slots: 8,
		Ranks: 2}
	one := job.Run{Prefix: "m", Suffix: "-ib", Width: 2, Lo: 7, Count: 1, User: "v", HCA: "mlx5_1:1", Slots: 9,
		Ranks: 1}
	two := job.NewNodes(0, []job.Run{run})
	last := job.Part{First: 2, Nodes: job.NewNodes(4, []job.Run{one})}
	spawn := rankwire.SpawnJob{Rank: 1, Commands: rankwire.NewCommands(rankwire.Command{Argv: rankwire.NewStrings("a"),
		Ranks: 1})}
	timed := job.NewNodeTimes(5)
	for i := range timed.At {
		timed.At[i] = time.Duration(1+i) * time.Millisecond
	}
	return []frame.Message{
		Launch{Job: &full, Nodes: samples()[0].(Launch).Nodes, First: 2, Share: samples()[0].(Launch).Share},
		Launch{Job: &ordered, Nodes: two, Share: []job.Part{last}},
		Offspring{Job: &ordered, Alloc: two, Spawn: spawn}, Offspring{Job: &full, Alloc: two, Spawn: spawn},
		Return{Part: last}, Replace{Part: last},
		Below{Left: 1, Key: 1, Head: 2, Parts: []job.Part{last}},
		Report{Node: 1, Serial: 2, Fault: Fault{What: FaultRank, Node: 7, Nodes: 1, Rank: 9, Count: 1, Awaited: true,
			Status: job.Status{Kind: job.Signaled, Code: 11, Core: true}, Host: "h", Parent: "p", Phase: "x",
			Cause: "c", Tail: "t", AgeMs: 3, Excused: true, SilentMs: 9}},
		Fault{What: FaultRank, Status: job.Status{Kind: job.Signaled, Code: 11, Core: true}},
		Times{Nodes: NewTimings(timed)},
	}
}

// showOpaque returns the content of v if v is a table of nodes or a layout, whose fields are unexported. Otherwise it
// returns nil.
func showOpaque(v any) any {
	switch v := v.(type) {
	case job.Nodes:
		return struct {
			Base job.Slot
			Runs []job.Run
		}{v.Base(), v.Runs()}
	case job.Layout:
		return frametest.Layout(v)
	}
	return nil
}
