package trace

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/ccs"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/fabric"
	"ibrun/internal/job"
)

// TestLines formats events and effects with fields of each kind. Fields that are zero must be left out, except
// identifiers such as Rank and enumerations such as What.
func TestLines(t *testing.T) {
	nodes := job.NewNodes(0, []job.Run{{Prefix: "n", Width: 1, Count: 12, Ranks: 1}})
	failed := make([]core.ForkFailure, maxItems+2)
	for i := range failed {
		failed[i].Rank = job.Slot(i)
	}
	for _, c := range []struct {
		v    any
		want string
	}{
		{core.Tick{}, "event Tick"},
		{core.ChildFailed{Phase: "connect", Cause: "no\nroute", Tail: "banner"},
			`event ChildFailed Child=0 Phase="connect" Cause="no\nroute" Tail=<6 bytes>`},
		{core.Frame{From: core.Up, Msg: wire.Launch{Job: &job.Job{ID: "j"}, Nodes: nodes, First: 3, SessionMs: 9}},
			`event Frame From=-1 Msg=Launch{Job="j" Nodes=<12> First=3 SessionMs=9}`},
		{core.Frame{Msg: wire.Heartbeat{}}, "event Frame From=0 Msg=Heartbeat"},
		{core.RankFrame{Rank: 2, Msg: rankwire.Put{Key: "key", Value: []byte("value")}},
			"event RankFrame Rank=2 Msg=Put{Key=<3 bytes> Value=<5 bytes>}"},
		{core.RankFrame{Msg: rankwire.Collect{Op: 1, What: rankwire.AllToAll}},
			"event RankFrame Rank=0 Msg=Collect{Op=1 What=AllToAll Root=0}"},
		{core.RankFrame{Msg: rankwire.Collect{Op: 1}}, "event RankFrame Rank=0 Msg=Collect{Op=1 What=Barrier Root=0}"},
		{flow.DaemonsAsked{ID: 1, Argv: []string{"a", "b"}, PerRank: true},
			"event DaemonsAsked ID=1 PerRank=true Argv=<2> OfRank=0"},
		{core.ForkDone{Failed: failed}, "event ForkDone Failed=[{Rank=0}{Rank=1}{Rank=2}{Rank=3}{Rank=4}{Rank=5}" +
			"{Rank=6}{Rank=7} and 2 more]"},
		{core.RankExited{Rank: 1, Status: job.Status{Kind: job.Signaled, Code: 9}},
			"event RankExited Rank=1 Status={Kind=1 Code=9}"},
		{core.SetTimer{At: 1500 * time.Millisecond}, "effect SetTimer At=1.5s"},
		{core.Report{What: core.Progress{Nodes: 4}}, "effect Report What=Progress{Nodes=4}"},
		{core.Report{}, "effect Report"},
	} {
		now, got := 1234567*time.Nanosecond, []byte(nil)
		switch v := c.v.(type) {
		case core.Event:
			got = Event(nil, now, v)
		case core.Effect:
			got = Effect(nil, now, v)
		}
		require.Equal(t, "0.001235 "+c.want+"\n", string(got))
	}
}

// TestUnlistedFieldsAreLeftOut formats a struct with fields of types and names that the package does not list. The line
// must contain at most the length of each.
func TestUnlistedFieldsAreLeftOut(t *testing.T) {
	type inner struct{ Host, Added string }
	type later struct {
		Added   string
		Words   []string
		Bytes   []byte
		Array   [6]byte
		Numbers []uint32
		Key     fabric.Key
		Tuple   fabric.Tuple
		Request ccs.Request
		Program job.Program
		Map     map[string]string
		Pointer *string
		Inner   inner
		Inners  []inner
		Any     any
		Func    func() string
		Float   float64
		private string
	}
	structs = append(structs, reflect.TypeFor[later]())
	t.Cleanup(func() { structs = structs[:len(structs)-1] })
	hidden := "hidden"
	got := string(fields(nil, reflect.ValueOf(later{
		Added: hidden, Words: []string{hidden}, Bytes: []byte(hidden), Array: [6]byte([]byte(hidden)),
		Numbers: []uint32{4711}, Key: fabric.Key{4, 7, 1, 1}, Tuple: fabric.Tuple{LID: 4711, Num: 4711},
		Request: ccs.Request{Handler: hidden, Data: []byte(hidden), PE: 4711},
		Program: job.Program{Argv: []string{hidden}, Env: []string{hidden}, Dir: hidden},
		Map:     map[string]string{hidden: hidden}, Pointer: &hidden, Inner: inner{hidden, hidden},
		Inners: []inner{{hidden, hidden}}, Any: inner{hidden, hidden}, Func: func() string { return hidden },
		Float: 4711, private: hidden,
	})))
	require.Equal(t, " Added=<6 bytes> Words=<1> Bytes=<6 bytes> Numbers=<1> Inners=<1> Any=inner", got)
}

// TestJobIsNotFormatted formats messages and effects that carry the job, values, input and output. The text must
// contain none of them.
func TestJobIsNotFormatted(t *testing.T) {
	hidden := "hidden"
	j := &job.Job{
		ID: "j", Secret: [32]byte([]byte("hidden hidden hidden hidden hidd")),
		Preput:   []job.KeyValue{{Key: hidden, Value: hidden}},
		Programs: []job.Program{{Argv: []string{hidden}, Env: []string{"A=" + hidden}, Dir: hidden}},
		Own:      []job.RankVariable{{Name: hidden}},
		Launch:   job.LaunchOptions{Exec: []string{hidden}, Args: []string{hidden}, AgentPath: hidden},
	}
	values := frame.NewValues([]byte(hidden))
	messages := []frame.Message{
		wire.Launch{Job: j}, wire.Output{Data: []byte(hidden)}, wire.Stdin{Data: []byte(hidden)},
		wire.Blocks{Values: values}, wire.BulkValues{Values: values}, wire.TableValues{Values: values},
		wire.CCSRequest{Request: ccs.Request{Handler: hidden, Data: []byte(hidden)}},
		wire.CCSReply{Data: []byte(hidden)}, wire.DaemonOutput{Data: []byte(hidden)},
		wire.Session{Argv: rankwire.NewStrings(hidden), Env: rankwire.NewStrings(hidden)},
		wire.SessionPiece{Data: rankwire.ToolPiece{Data: []byte(hidden)}},
		rankwire.Welcome{Key: fabric.Key([]byte("hidden hidden hidden hidden hidd"))},
		rankwire.Answer{Key: hidden, Value: []byte(hidden)}, rankwire.Name{Service: hidden, Port: hidden},
		rankwire.Collect{Parcels: rankwire.NewParcels(rankwire.Parcel{Value: []byte(hidden)})},
		rankwire.SpawnJob{Preput: rankwire.NewPairs(job.KeyValue{Key: hidden, Value: hidden})},
		rankwire.Notice{Text: hidden}, rankwire.Abort{Text: hidden},
	}
	effects := []core.Effect{
		core.Fork{Job: j}, core.Feed{Data: []byte(hidden)}, core.Write{Data: []byte(hidden)},
		flow.StartDaemons{Argv: []string{hidden}, Env: []string{hidden}},
		core.BulkFetched{Values: values}, core.StartJob{Spawn: rankwire.SpawnJob{}},
	}
	for _, m := range messages {
		effects = append(effects, core.Send{Msg: m}, core.SendRank{Msg: m})
	}
	var text []byte
	for _, e := range effects {
		text = Effect(text, 0, e)
	}
	require.NotContains(t, string(text), hidden)
	require.NotContains(t, string(text), "104 105 100") // "hid" as numbers
	require.Contains(t, string(text), "effect Send To=0 Msg=Answer{Rank=0 Key=<6 bytes> What=found Value=<6 bytes>}\n")
}
