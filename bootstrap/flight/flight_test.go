package flight

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/rankwire"
	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// begin is a job of two nodes.
func begin() core.Begin {
	nodes := job.NewNodes(0, []job.Run{{Prefix: "n", Width: 1, Count: 2, Ranks: 1}})
	j := &job.Job{
		ID: "j", Size: 2, Nodes: 2, Layout: nodes.Layout(), Secret: [32]byte{7: 7},
		Programs: []job.Program{{Count: 2, Argv: []string{"app"}, Env: []string{"PASSWORD=x"}, Dir: "/"}},
		Launch:   job.LaunchOptions{Launcher: "ssh", Tree: "flat", Timeout: 15 * time.Second, Grace: time.Second},
	}
	return core.Begin{Launch: wire.Launch{Job: j, Nodes: nodes}}
}

// recorded runs events through a core and a recorder.
func recorded(events ...core.Event) (r *Recorder, did []string) {
	cfg := core.Config{Root: true, Host: "front", Here: -1, Policy: core.Policy{
		KillOnBad: true, Spares: job.NewNodes(0, []job.Run{{Prefix: "s", Width: 1, Count: 2}}), MinNodes: 1,
	}}
	r = New(cfg)
	c := core.New(cfg)
	for i, ev := range events {
		now := time.Duration(i) * 1_234_567 // ns
		effects := c.Step(now, ev)
		r.Add(now, ev, effects)
		for _, e := range effects {
			did = append(did, fmt.Sprintf("%v %s", now, shown(e)))
		}
	}
	return r, did
}

func replayed(t *testing.T, r *Recorder) (did []string, gaps uint64, agents []Agent) {
	build, agents, err := Open(append(Header("b1"), r.Bytes("front", 0)...))
	require.NoError(t, err)
	require.Equal(t, "b1", build)
	require.Len(t, agents, 1)
	require.NoError(t, agents[0].Replay(nil, func(s Step) {
		require.False(t, s.Differs)
		gaps += s.Gap
		for _, e := range s.Effects {
			did = append(did, fmt.Sprintf("%v %s", s.At, shown(e)))
		}
	}))
	return did, gaps, agents
}

// run is a job with output and an agent that is lost.
func run() []core.Event {
	return []core.Event{
		begin(), core.ChildUp{Child: 0}, core.ChildUp{Child: 1},
		core.Frame{From: 0, Msg: wire.Ready{Up: 1}}, core.Frame{From: 1, Msg: wire.Ready{Up: 1}},
		core.Frame{From: 0, Msg: wire.Output{Rank: 0, Stream: 1, Data: []byte("secret words")}}, core.Wrote{N: 12},
		core.StdinRead{Data: []byte("typed"), EOF: true}, core.Tick{},
		core.LinkLost{Link: 0, Cause: "end of stream", Tail: "x"}, core.NodeSwept{Killed: 2},
		core.Frame{From: 1, Msg: wire.Exit{Runs: wire.NewEndings(job.StatusRun{First: 1, Count: 1})}},
	}
}

// A replay decides what the run decided, at the same times; what ranks print and who may know what
// is not in the file.
func TestReplayDecidesTheSame(t *testing.T) {
	r, did := recorded(run()...)
	again, gaps, agents := replayed(t, r)
	require.Equal(t, did, again)
	require.NotEmpty(t, did)
	require.Zero(t, gaps)
	require.Equal(t, 2, agents[0].Config.Policy.Spares.Len())
	for _, secret := range []string{"secret words", "typed", "PASSWORD", "\x00\x07\x00"} {
		require.NotContains(t, string(r.Bytes("front", 0)), secret)
	}
	var text bytes.Buffer
	same, err := Print(&text, agents, nil)
	require.NoError(t, err)
	require.True(t, same)
	require.Contains(t, text.String(), "LinkLost {Link:0 Cause:end of stream Tail:x}\n    Report ")
}

// A core that decides otherwise than the record says is found.
func TestReplayDiffers(t *testing.T) {
	events := run()
	r := New(core.Config{Root: true, Host: "front", Here: -1})
	for i, ev := range events {
		r.Add(time.Duration(i), ev, nil) // a build that did nothing
	}
	_, agents, err := Open(append(Header("b"), r.Bytes("front", 0)...))
	require.NoError(t, err)
	var text bytes.Buffer
	same, err := Print(&text, agents, nil)
	require.NoError(t, err)
	require.False(t, same)
	require.Contains(t, text.String(), "decides otherwise")
}

// A long run keeps its beginning and its end within the bound, and says what is missing.
func TestRing(t *testing.T) {
	r := New(core.Config{Root: true, Here: -1})
	const count = 200_000
	for i := range count {
		r.Add(time.Duration(i)*time.Second, core.Notice{Text: fmt.Sprint("event ", i)}, nil)
	}
	require.Less(t, len(r.Bytes("front", 0)), KeepFirst+KeepLast+1000)
	_, agents, err := Open(append(Header("b"), r.Bytes("front", 0)...))
	require.NoError(t, err)
	var texts []string
	gaps, at := uint64(0), time.Duration(0)
	require.NoError(t, agents[0].Replay(nil, func(s Step) {
		if gaps += s.Gap; s.Gap == 0 {
			texts = append(texts, s.Event.(core.Notice).Text)
		}
		at = s.At
	}))
	require.Equal(t, "event 0", texts[0])
	require.Equal(t, fmt.Sprint("event ", count-1), texts[len(texts)-1])
	require.EqualValues(t, count-len(texts), gaps)
	require.Equal(t, (count-1)*time.Second, at)
}

// Every event of the core has a form. Its fields come back.
func TestEveryEvent(t *testing.T) {
	files, err := filepath.Glob("../core/*.go")
	require.NoError(t, err)
	names := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "event" && f.Recv != nil {
				names[f.Recv.List[0].Type.(*ast.Ident).Name] = true
			}
		}
	}
	own := []core.Event{
		core.Frame{}, core.RankFrame{}, core.Begin{}, core.Placed{}, core.RankOutput{}, core.StdinRead{}, core.Tick{},
		core.Wrote{}, core.Asked{}, core.Inspected{}, core.DaemonOutput{},
		core.MemberFrame{},
	}
	require.Greater(t, len(names), 30)
	for _, ev := range append(own, others...) {
		delete(names, reflect.TypeOf(ev).Name())
	}
	require.Empty(t, names, "events that a recorder cannot write")
	for _, ev := range []core.Event{
		core.Frame{From: core.Up, Msg: wire.End{Signal: 15, GraceMs: 7}},
		core.RankFrame{Rank: 70000, Msg: rankwire.Collect{Op: 3}}, core.Placed{Placed: wire.Placed{Node: 3, Host: "h"}},
		core.RankOutput{Rank: 3, Stream: 2, Data: make([]byte, 9)}, core.StdinRead{EOF: true, Data: []byte{}},
		core.Asked{Query: wire.Query{ID: 3, Question: rankwire.Question{What: rankwire.LookAtRanks, Rows: 7}}},
		core.Inspected{Reply: wire.Reply{ID: 3, Standings: rankwire.Standings{Nodes: 1,
			Rows: rankwire.NewRankRows(rankwire.RankRow{Rank: 7, Host: "h"})}}},
		core.Tick{}, core.Wrote{N: 70000}, core.ForkDone{Failed: []core.ForkFailure{{Rank: 3, Code: 127, Cause: "no"}}},
		core.RankExited{Rank: 1, Status: job.Status{Kind: job.Signaled, Code: 9}, Awaited: true, Cause: "c"},
		core.BulkRead{Fence: 3, Value: []byte{1, 2}},
		core.Killed{Left: []core.Unkillable{{PID: 3, Name: "x", State: "D"}}},
		core.JobAsked{Job: 3, Name: rankwire.Name{Rank: 1, Service: "s"}},
		core.DaemonOutput{DaemonOutput: wire.DaemonOutput{ID: 3, Number: 7, Stream: 2, Data: make([]byte, 9)}},
		core.Frame{From: 2, Msg: wire.DaemonOutput{ID: 3, Number: 7, Stream: 2, Data: make([]byte, 9)}},
		core.DaemonsAsked{ID: 3, PerRank: true, Hosts: []string{"a"}, Argv: []string{"b", ""}},
		core.DaemonExited{ID: 3, Number: 7, Status: job.Status{Kind: job.Signaled, Code: 9}},
		core.MemberFrame{ID: 3, Member: 70000, Msg: rankwire.ToolRoom{N: 9}},
		core.MemberFrame{ID: 3, Member: 1, Msg: rankwire.ToolPiece{Last: true, Data: make([]byte, 9)}},
		core.SessionSent{ID: 3, Data: rankwire.ToolPiece{Data: make([]byte, 9)}},
		core.SessionAsked{ID: 3, On: []core.MembersOn{{Host: "a", Count: 2}}, Argv: []string{"b"}},
		core.Frame{From: 2, Msg: wire.SessionPiece{ID: 3, Data: rankwire.ToolPiece{Data: make([]byte, 9)}}},
		core.Probed{Link: 2, Known: true, Acked: 1 << 40},
	} {
		kind, body := encodeEvent(ev)
		got, err := decodeEvent(kind, body)
		require.NoError(t, err)
		require.Equal(t, ev, got)
	}
}

// A file that is no record, or a damaged one, is an error and nothing worse.
func FuzzOpen(f *testing.F) {
	r, _ := recorded(run()...)
	whole := append(Header("b"), r.Bytes("front", 0)...)
	for _, n := range []int{0, 10, 20, 40, len(whole) / 2, len(whole) - 1, len(whole)} {
		f.Add(whole[:n])
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		_, agents, err := Open(file)
		if err != nil || len(file) > 1<<16 {
			return
		}
		for _, a := range agents {
			_ = a.Replay(nil, func(Step) {})
		}
	})
}
