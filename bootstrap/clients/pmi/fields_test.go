package pmi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/fields"
)

// TestRequestsAreWhole has a command for each row of the grammar that asks something of the owner,
// with all its fields, an answer with all of its own, and the reply. No field of a request stays
// zero, so that a field that the engine drops is missed here.
func TestRequestsAreWhole(t *testing.T) {
	answer := Answer{Found: true, Value: "V", Rank: 3, App: 4, Count: 5, Left: "L", Right: "R"}
	const words = "nprocs=2\nexecname=a\narg1=b c\nargcnt=1\npreput_num=1\npreput_key_0=k\npreput_val_0=v\n" +
		"info_num=1\ninfo_key_0=i\ninfo_val_0=w\n"
	const frames = "argc=1;argv0=b c;infokeycount=1;infokey0=i;infoval0=w;"
	spawn := Spawn{
		Commands: []Command{{Argv: []string{"a", "b c"}, Ranks: 2, Hints: []Pair{{"i", "w"}}}},
		Preput:   []Pair{{"k", "v"}},
	}
	table := []struct {
		version int
		say     string
		asks    Request
		reply   string
	}{
		{1, "cmd=initack pmiid=7", Identify{7}, "cmd=initack rc=0\ncmd=set size=9\ncmd=set rank=3\ncmd=set debug=0"},
		{1, "cmd=put kvsname=kvs_ibrun_0 key=k value=v", Put{"k", "v"}, "cmd=put_result rc=0 msg=success"},
		{1, "cmd=get kvsname=kvs_ibrun_0 key=k", Get{"k"}, "cmd=get_result rc=0 msg=success value=V"},
		{1, "cmd=barrier_in", Fence{}, "cmd=barrier_out rc=0"},
		{1, "cmd=publish_name service=s port=p", Publish{"s", "p"}, "cmd=publish_result rc=0 msg=success info=ok"},
		{1, "cmd=lookup_name service=s", Lookup{"s"}, "cmd=lookup_result rc=0 port=V info=ok"},
		{1, "cmd=unpublish_name service=s", Unpublish{"s"}, "cmd=unpublish_result rc=0 info=ok"},
		{1, "mcmd=spawn\n" + words + "endcmd", spawn, "cmd=spawn_result rc=0"},
		{1, "cmd=finalize", Finalize{}, "cmd=finalize_ack rc=0"},
		{1, "cmd=abort exitcode=6", Abort{Code: 6}, ""},
		{2, "cmd=kvs-put;key=k;value=v;", Put{"k", "v"}, "cmd=kvs-put-response;rc=0;"},
		{2, "cmd=kvs-get;key=k;", Get{"k"}, "cmd=kvs-get-response;found=TRUE;value=V;rc=0;"},
		{2, "cmd=kvs-fence;", Fence{}, "cmd=kvs-fence-response;rc=0;"},
		{2, "cmd=info-putnodeattr;key=k;value=v;", NodePut{"k", "v"}, "cmd=info-putnodeattr-response;rc=0;"},
		{
			2, "cmd=info-getnodeattr;key=k;wait=TRUE;", NodeGet{"k", true},
			"cmd=info-getnodeattr-response;found=TRUE;value=V;rc=0;",
		},
		{
			2, "cmd=ring;ring-count=2;ring-left=l;ring-right=r;", Ring{2, "l", "r"},
			"cmd=ring-response;rc=0;ring-count=5;ring-left=L;ring-right=R;",
		},
		{2, "cmd=name-publish;name=s;port=p;", Publish{"s", "p"}, "cmd=name-publish-response;rc=0;"},
		{2, "cmd=name-lookup;name=s;", Lookup{"s"}, "cmd=name-lookup-response;found=TRUE;value=V;port=V;rc=0;"},
		{2, "cmd=name-unpublish;name=s;", Unpublish{"s"}, "cmd=name-unpublish-response;rc=0;"},
		{
			2, "cmd=spawn;ncmds=1;preputcount=1;ppkey0=k;ppval0=v;subcmd=a;maxprocs=2;" + frames, spawn,
			"cmd=spawn-response;rc=0;jobid=V;nerrs=0;",
		},
		{2, "cmd=finalize;", Finalize{}, "cmd=finalize-response;rc=0;"},
		{2, "cmd=abort;isworld=TRUE;msg=why;", Abort{1, "why"}, ""},
	}
	asked, requests := map[string]bool{}, []any{}
	for _, c := range table {
		e := NewEngine(usual(-1, 9))
		if c.say != table[0].say {
			e = one(t, c.version).engines[0]
		}
		wire := func(text string) string {
			switch {
			case text == "":
				return ""
			case c.version == 2:
				return frameOf(text)
			}
			return text + "\n"
		}
		steps := e.Feed([]byte(wire(c.say)))
		require.Equal(t, c.asks, steps[0].Request, c.say)
		if e.asked != nil {
			steps = append(steps, e.Answer(answer)...)
		}
		var reply []byte
		for _, s := range steps {
			require.NoError(t, s.Err)
			reply = append(reply, s.Bytes...)
		}
		require.Equal(t, wire(c.reply), string(reply), c.say)
		words := strings.FieldsFunc(c.say, func(r rune) bool { return strings.ContainsRune("= ;\n", r) })
		asked[fmt.Sprint(c.version, " ", words[1])] = true
		requests = append(requests, c.asks)
	}
	for _, row := range grammar {
		name := fmt.Sprint(row.version, " ", row.name)
		require.Equal(t, row.makes != nil, asked[name], "PMI-%s", name)
	}
	require.Empty(t, fields.Zero(nil, requests...))
	require.Equal(t, []string{"Answer.Refused"}, fields.Zero(nil, answer))
}
