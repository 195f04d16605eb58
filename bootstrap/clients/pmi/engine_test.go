package pmi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRefusals(t *testing.T) {
	long := strings.Repeat("v", 3000)
	for _, c := range []struct {
		version   int
		say, want string
	}{
		{1, "cmd=put kvsname=other key=a value=b", "cmd=put_result rc=-1 msg=no_such_kvsname"},
		{1, "cmd=put kvsname=kvs_ibrun_0 key=a b value=c", "cmd=put_result rc=-1 msg=malformed:_b"},
		{1, "cmd=put kvsname=kvs_ibrun_0 key=a=b value=c", "cmd=put_result rc=-1 msg=key_with_a_space_or_="},
		{1, "cmd=put kvsname=kvs_ibrun_0 key=a\tb value=c", "cmd=put_result rc=-1 msg=key_with_a_space_or_="},
		{1, "cmd=put kvsname=kvs_ibrun_0 key= value=c", "cmd=put_result rc=-1 msg=empty_key"},
		{1, "cmd=put kvsname=kvs_ibrun_0 value=c", "cmd=put_result rc=-1 msg=no_key"},
		{1, "cmd=put kvsname=kvs_ibrun_0 key=a", "cmd=put_result rc=-1 msg=no_value"},
		{1, "cmd=put key=a value=b", "cmd=put_result rc=-1 msg=no_kvsname"},
		{1, "cmd=put kvsname=kvs_ibrun_0 key=PMI_process_mapping value=b", "cmd=put_result rc=-1 msg=reserved_key"},
		{1, "cmd=put kvsname=kvs_ibrun_0 key=" + long[:64] + " value=b", "cmd=put_result rc=0 msg=success"},
		{1, "cmd=put kvsname=kvs_ibrun_0 key=" + long[:65] + " value=b", "cmd=put_result rc=-1 msg=key_longer_than_64"},
		{1, "cmd=put kvsname=kvs_ibrun_0 key=a value=" + long[:984], "cmd=put_result rc=0 msg=success"},
		{1, "cmd=put kvsname=kvs_ibrun_0 key=a value=" + long[:985],
			"cmd=put_result rc=-1 msg=value_too_long_for_a_line"},
		{1, "cmd=put kvsname=kvs_ibrun_0 key=a value=" + long[:1025],
			"cmd=put_result rc=-1 msg=value_longer_than_1024"},
		{1, "cmd=put kvsname=kvs_ibrun_0 key=a value=", "cmd=put_result rc=0 msg=success"},
		{1, "cmd=get kvsname=other key=a", "cmd=get_result rc=-1 msg=no_such_kvsname value=unknown"},
		{1, "cmd=get kvsname=kvs_ibrun_0 key=a", "cmd=get_result rc=-1 msg=key_not_found value=unknown"},
		{1, "cmd=get kvsname=kvs_ibrun_0", "cmd=get_result rc=-1 msg=no_key value=unknown"},
		{1, "cmd=publish_name service=a b port=c", "cmd=publish_result rc=-1 msg=malformed:_b info=none"},
		{1, "cmd=publish_name service= port=c",
			"cmd=publish_result rc=-1 msg=service_name_of_no_bytes_or_more_than_1024 info=none"},
		{1, "cmd=publish_name service=a port=" + long[:1000], "cmd=publish_result rc=-1 msg=port_too_long info=none"},
		{1, "cmd=lookup_name service=",
			"cmd=lookup_result rc=-1 msg=service_name_of_no_bytes_or_more_than_1024 info=none"},
		{1, "cmd=unpublish_name service=a", "cmd=unpublish_result rc=1 msg=service_not_found info=none"},
		{1, "cmd=unpublish_name service=",
			"cmd=unpublish_result rc=-1 msg=service_name_of_no_bytes_or_more_than_1024 info=none"},
		{1, "cmd=init pmi_version=1 pmi_subversion=1",
			"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=-1 " +
				"msg=a_second_init:_two_programs_on_one_descriptor?"},
		{1, "cmd=initack pmiid=0", "cmd=initack rc=-1 msg=a_second_init:_two_programs_on_one_descriptor?"},
		{1, "cmd=get_universe_size", "cmd=universe_size size=1 rc=0"},

		{2, "cmd=kvs-put;key=a b;value=c;", "cmd=kvs-put-response;rc=-1;errmsg=key with a space or =;"},
		{2, "cmd=kvs-put;key=a;", "cmd=kvs-put-response;rc=-1;errmsg=no value;"},
		{2, "cmd=kvs-put;key=a;value=" + long[:1024] + ";", "cmd=kvs-put-response;rc=0;"},
		{2, "cmd=kvs-put;key=a;value=" + long[:1025] + ";",
			"cmd=kvs-put-response;rc=-1;errmsg=value longer than 1024;"},
		{2, "cmd=kvs-get;key=a;", "cmd=kvs-get-response;found=FALSE;rc=0;"},
		{2, "cmd=kvs-get;jobid=other;key=a;", "cmd=kvs-get-response;found=FALSE;rc=-1;errmsg=no such jobid;"},
		{2, "cmd=kvs-get;jobid=ibrun.0;srcid=0;key=PMI_process_mapping;thrid=0x7f;",
			"cmd=kvs-get-response;thrid=0x7f;found=TRUE;value=(vector,(0,1,1));rc=0;"},
		{2, "cmd=info-getjobattr;key=universeSize;", "cmd=info-getjobattr-response;found=TRUE;value=1;rc=0;"},
		{2, "cmd=info-getjobattr;key=other;", "cmd=info-getjobattr-response;found=FALSE;rc=0;"},
		{2, "cmd=info-getnodeattr;key=a;wait=FALSE;", "cmd=info-getnodeattr-response;found=FALSE;rc=0;"},
		{2, "cmd=info-getnodeattr;key=;", "cmd=info-getnodeattr-response;found=FALSE;rc=-1;errmsg=empty key;"},
		{2, "cmd=info-putnodeattr;key=;value=a;", "cmd=info-putnodeattr-response;rc=-1;errmsg=empty key;"},
		{2, "cmd=ring;ring-count=x;ring-left=a;ring-right=b;",
			"cmd=ring-response;rc=-1;errmsg=ring-count is no number;"},
		{2, "cmd=ring;ring-count=1;ring-left=" + long + ";ring-right=b;",
			"cmd=ring-response;rc=-1;errmsg=value longer than 1024;"},
		{2, "cmd=name-lookup;name=a;infokeycount=0;",
			"cmd=name-lookup-response;found=FALSE;rc=1;errmsg=service not found;"},
		{2, "cmd=name-publish;name=;port=b;",
			"cmd=name-publish-response;rc=-1;errmsg=service name of no bytes or more than 1024;"},
		{2, "cmd=name-unpublish;name=a;", "cmd=name-unpublish-response;rc=1;errmsg=service not found;"},
		{2, "cmd=spawn;ncmds=2;preputcount=0;subcmd=a;maxprocs=1;argc=0;",
			"cmd=spawn-response;rc=-1;errmsg=malformed spawn;"},
		{2, "cmd=spawn;ncmds=0;preputcount=0;", "cmd=spawn-response;rc=-1;errmsg=malformed spawn;"},
		{2, "cmd=spawn;ncmds=1;subcmd=a;maxprocs=0;", "cmd=spawn-response;rc=-1;errmsg=malformed spawn;"},
		{2, "cmd=spawn;ncmds=1;preputcount=1;ppkey0=a b;ppval0=c;subcmd=a;maxprocs=1;",
			"cmd=spawn-response;rc=-1;errmsg=preput: key with a space or =;"},
		{2, "cmd=fullinit;pmirank=0;",
			"cmd=fullinit-response;rc=-1;errmsg=a second init: two programs on one descriptor?;"},
		{2, "cmd=job-connect;jobid=other;thrid=a;;b;",
			"cmd=job-connect-response;thrid=a;;b;rc=-1;errmsg=unknown command;"},
		{2, "cmd=job-getid;thrid=" + long + ";", "cmd=job-getid-response;jobid=ibrun.0;rc=0;"},
		{2, "cmd=a;;b\x01\x80%" + long + ";", "cmd=a;;b???" + long[:58] + "-response;rc=-1;errmsg=unknown command;"},
	} {
		o := one(t, c.version)
		require.Equal(t, c.want, o.say(c.say), c.say)
		require.NoError(t, o.errs[0])
		next := map[int]string{1: "cmd=get_appnum", 2: "cmd=job-getid;"}[c.version] // and it goes on
		require.Contains(t, o.say(next), "rc=0")
	}
}

// What has no error of the protocol ends the client, and says what was seen.
func TestEnds(t *testing.T) {
	one := "cmd=init pmi_version=1 pmi_subversion=1\n"
	two := "cmd=init pmi_version=2 pmi_subversion=0\n"
	for _, c := range []struct {
		rank      int
		say, want string
	}{
		{0, "cmd=get_maxes\n", `pmi-1: before init: "cmd=get_maxes"`},
		{0, "cmd=abort exitcode=1\n", `pmi-1: before init: "cmd=abort exitcode=1"`},
		{0, one + "cmd=what a=b\n", `pmi-1: unknown command: "cmd=what a=b"`},
		{0, one + "cmd=kvs-put key=a\n", `pmi-1: unknown command: "cmd=kvs-put key=a"`},
		{0, one + "mcmd=put\n", `pmi-1: unknown command: "mcmd=put"`},
		{0, one + "cmd=spawn nprocs=1\n", `pmi-1: unknown command: "cmd=spawn nprocs=1"`},
		{0, one + "\n", `pmi-1: no command: ""`},
		{0, one + "value=cmd\n", `pmi-1: no command: "value=cmd"`},
		{0, one + "hello\n", `pmi-1: no command: "hello"`},
		{0, one + "cmd=\n", `pmi-1: no command: "cmd="`},
		{0, one + "cmd=get\x00_maxes\n", `pmi-1: a NUL byte`},
		{0, "\x00", `pmi-1: a NUL byte`},
		{0, strings.Repeat("x", 3000), `pmi-1: a line of more than 2047 bytes: "` + strings.Repeat("x", 64) + `"`},
		{0, one + strings.Repeat("x", 3000) + "\n", `pmi-1: a line of more than 2047 bytes: "` + strings.Repeat("x",
			64) + `"`},
		{0, one + strings.Repeat("x", 100) + "\n", `pmi-1: no command: "` + strings.Repeat("x", 64) + `"...`},
		{0, one + "mcmd=spawn\nhello\n", `pmi-1: a line of a spawn that is not name=value: "hello"`},
		{0, one + "mcmd=spawn\n" + strings.Repeat("a="+strings.Repeat("x", 1000)+"\n", 70),
			`pmi-1: a spawn of more than 65536 bytes`},
		{0, two + two, `pmi-2: a frame's length should be a number of 6 characters, not "cmd=in"`},
		{0, two + "      ", `pmi-2: a frame's length should be a number of 6 characters, not "      "`},
		{0, two + "    -1", `pmi-2: a frame's length should be a number of 6 characters, not "    -1"`},
		{0, two + "999999", `pmi-2: a frame of 999999 bytes; at most 65536 are taken`},
		{0, two + "     0", `pmi-2: no command: ""`},
		{0, two + frameOf("cmd=a"), `pmi-2: a frame that is not name=value; and so on: "cmd=a"`},
		{0, two + frameOf("cmd=a;;"), `pmi-2: a frame that is not name=value; and so on: "cmd=a;;"`},
		{0, two + frameOf("cmd=a;b;c=d;"), `pmi-2: a frame that is not name=value; and so on: "cmd=a;b;c=d;"`},
		{0, two + frameOf("a=b;cmd=c;"), `pmi-2: no command: "a=b;cmd=c;"`},
		{0, two + frameOf("cmd=a;b=\x00;"), `pmi-2: a NUL byte`},
		{0, "cmd=initack pmiid=1\n", `pmi-1: initack of rank 1 instead of rank 0`},
		{0, "cmd=initack pmiid=3\n", `pmi-1: initack of rank "3" of 3`},
		{0, "cmd=initack pmiid=x\n", `pmi-1: initack of rank "x" of 3`},
		{-1, one, `pmi-1: init without initack: the client did not say which rank it is`},
		{-1, "cmd=get_maxes\n", `pmi-1: before init: "cmd=get_maxes"`},
		{-1, "cmd=initack pmiid=1\ncmd=initack pmiid=1\n", `pmi-1: before init: "cmd=initack pmiid=1"`},
	} {
		for _, piece := range []int{0, 1} {
			o := newOwner(t, 1, func(int) Config { return usual(c.rank, 3) })
			o.feed(0, c.say, piece)
			require.EqualError(t, o.errs[0], c.want, "%q", c.say)
			require.Nil(t, o.engines[0].Feed([]byte(one)), "it takes no more")
			require.Nil(t, o.engines[0].Answer(Answer{}))
			require.Nil(t, o.engines[0].in)
		}
	}
}

func TestVersions(t *testing.T) {
	ask := func(version, want string) *Engine {
		e := NewEngine(usual(0, 1))
		steps := e.Feed([]byte("cmd=init " + version + "\n"))
		require.Len(t, steps, 1)
		require.Equal(t, "cmd=response_to_init "+want+"\n", string(steps[0].Bytes))
		return e
	}
	require.Equal(t, 1, ask("pmi_version=1 pmi_subversion=0", "pmi_version=1 pmi_subversion=1 rc=0").Version())
	require.Equal(t, 1, ask("pmi_version=1 pmi_subversion=9", "pmi_version=1 pmi_subversion=1 rc=0").Version())
	require.Equal(t, 2, ask("pmi_version=2 pmi_subversion=1", "pmi_version=2 pmi_subversion=0 rc=0").Version())
	require.Equal(t, 0, ask("pmi_version=0 pmi_subversion=1",
		"pmi_version=2 pmi_subversion=0 rc=-1 msg=versions_1.1_and_2.0_are_spoken_here").Version())
	ask("pmi_version=1", "pmi_version=2 pmi_subversion=0 rc=-1 msg=no_pmi_subversion")
	ask("pmi_version=one pmi_subversion=1",
		"pmi_version=2 pmi_subversion=0 rc=-1 msg=versions_1.1_and_2.0_are_spoken_here")
	e := ask("pmi_version=3 pmi_subversion=0",
		"pmi_version=2 pmi_subversion=0 rc=-1 msg=versions_1.1_and_2.0_are_spoken_here")
	steps := e.Feed([]byte("cmd=init pmi_version=1 pmi_subversion=1\n")) // it may try again
	require.Equal(t, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n", string(steps[0].Bytes))
}

// After finalize all is refused, by the protocol's error of each command.
func TestAfterFinalize(t *testing.T) {
	for _, c := range grammar {
		text, bye := "cmd="+c.name, "cmd=finalize"
		switch {
		case c.version == 2:
			text, bye = text+";", "cmd=finalize;"
		case c.name == "spawn":
			text = "mcmd=spawn\nnprocs=1\nexecname=a\nendcmd"
		}
		o := one(t, c.version)
		require.Contains(t, o.say(bye), "rc=0")
		require.True(t, o.engines[0].Finalized())
		o.asked[0] = nil
		reply := o.say(text)
		require.NoError(t, o.errs[0])
		if c.name == "abort" {
			require.Equal(t, []Request{Abort{Code: 1}}, o.asked[0])
			continue
		}
		require.Contains(t, reply, "cmd="+c.reply)
		require.Contains(t, strings.ReplaceAll(reply, "_", " "), "after finalize")
		require.Contains(t, reply, "rc=-1")
		require.Empty(t, o.asked[0])
		require.True(t, o.engines[0].Finalized())
	}
}

func TestOneRequestAtATime(t *testing.T) {
	e := NewEngine(usual(0, 2))
	steps := e.Feed([]byte("cmd=init pmi_version=1 pmi_subversion=1\ncmd=barrier_in\ncmd=get_appnum\ncmd=get " +
		"kvsname=kvs_ibrun_0 key=a\ncmd=finalize\n"))
	require.Len(t, steps, 2)
	require.Equal(t, Fence{}, steps[1].Request)
	require.NotNil(t, e.asked)
	require.Empty(t, e.Feed([]byte("cmd=get_")))
	steps = e.Answer(Answer{})
	require.Len(t, steps, 3)
	require.Equal(t, "cmd=barrier_out rc=0\n", string(steps[0].Bytes))
	require.Equal(t, "cmd=appnum appnum=0 rc=0\n", string(steps[1].Bytes))
	require.Equal(t, Get{"a"}, steps[2].Request)
	steps = e.Answer(Answer{Found: true, Value: "b c=d"})
	require.Len(t, steps, 3)
	require.Equal(t, "cmd=get_result rc=0 msg=success value=b c=d\n", string(steps[0].Bytes))
	require.Equal(t, Finalize{}, steps[1].Request)
	require.Nil(t, e.asked)
	require.Empty(t, e.Answer(Answer{}), "nobody asked")
}

func TestAbortOvertakes(t *testing.T) {
	e := NewEngine(usual(0, 2))
	require.Len(t, e.Feed([]byte("cmd=init pmi_version=1 pmi_subversion=1\ncmd=barrier_in\ncmd=ab")), 2)
	require.Equal(t, []Step{{Request: Abort{Code: 0}}}, e.Feed([]byte("ort exitcode=0\n")))
	require.Empty(t, e.Answer(Answer{}), "the client is gone")
	require.Empty(t, e.Feed([]byte("cmd=get_appnum\n")))
	require.False(t, e.Finalized())

	o := one(t, 2)
	require.Empty(t, o.say("cmd=abort;isworld=TRUE;msg=out of;; luck;"))
	require.Equal(t, Abort{Code: 1, Text: "out of; luck"}, o.asked[0][len(o.asked[0])-1])
}

// A client that never waits for its answers is bounded, and so is one that
// sends half a line while it waits.
func TestTalkative(t *testing.T) {
	e := NewEngine(usual(0, 2))
	e.Feed([]byte("cmd=init pmi_version=1 pmi_subversion=1\ncmd=barrier_in\n"))
	var steps []Step
	fed := 0
	for ; steps == nil && fed < 1<<20; fed += 1000 {
		steps = e.Feed([]byte(strings.Repeat("cmd=barr\n", 1000/9) + "x"))
	}
	require.Len(t, steps, 1)
	require.ErrorContains(t, steps[0].Err, "bytes sent before an answer came")
	require.LessOrEqual(t, fed, 70000)
}

// A long command leaves no long buffer behind.
func TestKeepsLittle(t *testing.T) {
	o := one(t, 2)
	o.say("cmd=kvs-put;key=a;value=" + strings.Repeat("v", 60000) + ";")
	require.LessOrEqual(t, cap(o.engines[0].in), keep)
	o.feed(0, "  60000"[1:]+strings.Repeat("x", 59999), 7)
	require.Less(t, cap(o.engines[0].in), 2*maxFrame)
}

func TestPMI2(t *testing.T) {
	o := newOwner(t, 1, func(rank int) Config { return usual(rank, 1) })
	o.feed(0, "cmd=init pmi_version=2 pmi_subversion=0\n", 1)
	require.Equal(t, "cmd=kvs-fence-response;rc=-1;errmsg=before fullinit;", o.say("cmd=kvs-fence;"))
	require.Equal(t, "cmd=fullinit-response;rc=-1;errmsg=this is the descriptor of rank 0;",
		o.say("cmd=fullinit;pmirank=1;"))
	require.Contains(t, o.say("cmd=fullinit;pmijobid=ibrun.0;threaded=FALSE;"), "rank=0;size=1;appnum=0;")
	for _, value := range []string{"", ";", ";;", "a;b=c;", "two\nlines", "value=x y"} {
		wire := strings.ReplaceAll(value, ";", ";;")
		require.Equal(t, "cmd=kvs-put-response;thrid=7;rc=0;", o.say("cmd=kvs-put;thrid=7;key=k;value="+wire+";"))
		require.Equal(t, Put{"k", value}, o.asked[0][len(o.asked[0])-1])
		require.Equal(t, "cmd=kvs-fence-response;thrid=8;rc=0;", o.say("cmd=kvs-fence;thrid=8;"))
		require.Equal(t, "cmd=kvs-get-response;found=TRUE;value="+wire+";rc=0;", o.say("cmd=kvs-get;key=k;"))
		require.Equal(t, "cmd=info-putnodeattr-response;rc=0;", o.say("cmd=info-putnodeattr;key=k;value="+wire+";"))
		require.Equal(t, "cmd=info-getnodeattr-response;found=TRUE;value="+wire+";rc=0;",
			o.say("cmd=info-getnodeattr;key=k;wait=TRUE;"))
		require.Equal(t, NodeGet{"k", true}, o.asked[0][len(o.asked[0])-1])
		require.Equal(t, "cmd=name-publish-response;rc=0;", o.say("cmd=name-publish;name=s;port="+wire+
			";infokeycount=0;"))
		require.Equal(t, "cmd=name-lookup-response;found=TRUE;value="+wire+";port="+wire+";rc=0;",
			o.say("cmd=name-lookup;name=s;infokeycount=0;"))
		require.Equal(t, "cmd=name-unpublish-response;rc=0;", o.say("cmd=name-unpublish;name=s;infokeycount=0;"))
	}
	require.Equal(t, "cmd=job-getid-response;jobid=ibrun.0;rc=0;", o.say("cmd=job-getid;"))
	require.NoError(t, o.errs[0])
	for _, length := range []string{"14    ", "    14", "000014", "  14  "} { // clients pad as they like
		o.out[0] = nil
		o.feed(0, length+"cmd=job-getid;", 0)
		require.Equal(t, frameOf("cmd=job-getid-response;jobid=ibrun.0;rc=0;"), string(o.out[0]))
	}
}

// What other ranks put over PMI-2, or through our own library, may not fit.
func TestValuesThatDoNotFit(t *testing.T) {
	get := func(e *Engine, value string) string {
		require.Equal(t, []Step{{Request: Get{"a"}}}, e.Feed([]byte("cmd=get kvsname=kvs_ibrun_0 key=a\n")))
		return string(e.Answer(Answer{Found: true, Value: value})[0].Bytes)
	}
	e := one(t, 1).engines[0]
	most := strings.Repeat("v", 984)
	require.Len(t, get(e, most), maxLine)
	for _, value := range []string{most + "v", "two\nlines", "a\x00", strings.Repeat("v", 16384)} {
		require.Equal(t, "cmd=get_result rc=-1 msg=value_does_not_fit value=unknown\n", get(e, value))
	}
	require.Len(t, e.Feed([]byte("cmd=lookup_name service=a\n")), 1)
	require.Equal(t, "cmd=lookup_result rc=-1 msg=value_does_not_fit info=none\n",
		string(e.Answer(Answer{Found: true, Value: "with space"})[0].Bytes))
}

func TestLongValueOverPMI2(t *testing.T) {
	e := one(t, 2).engines[0]
	for value, want := range map[string]string{
		strings.Repeat(";", 1024): "found=TRUE;value=" + strings.Repeat(";", 2048) + ";rc=0;",
		strings.Repeat(";", 1025): "found=FALSE;rc=-1;errmsg=value does not fit;",
		"a\x00":                   "found=FALSE;rc=-1;errmsg=value does not fit;",
	} {
		e.Feed([]byte(frameOf("cmd=kvs-get;key=a;")))
		require.Equal(t, frameOf("cmd=kvs-get-response;"+want),
			string(e.Answer(Answer{Found: true, Value: value})[0].Bytes))
	}
}

func TestMappingThatDoesNotFit(t *testing.T) {
	for _, mapping := range []string{"", strings.Repeat("(0,1,1)", 200)} {
		cfg := usual(0, 1)
		cfg.Mapping = mapping
		e := NewEngine(cfg)
		steps := e.Feed([]byte("cmd=init pmi_version=1 pmi_subversion=1\ncmd=get kvsname=kvs_ibrun_0 " +
			"key=PMI_process_mapping\n"))
		require.Equal(t, "cmd=get_result rc=-1 msg=key_not_found value=unknown\n", string(steps[1].Bytes))
	}
}

func TestLongValues(t *testing.T) {
	cfg := usual(0, 1)
	cfg.MaxValue = 16384
	o := newOwner(t, 1, func(int) Config { return cfg })
	o.feed(0, "cmd=init pmi_version=1 pmi_subversion=1\n", 0)
	require.Equal(t, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=16384 rc=0", o.say("cmd=get_maxes"))
	value := strings.Repeat("v", 16384)
	require.Equal(t, "cmd=put_result rc=0 msg=success", o.say("cmd=put kvsname=kvs_ibrun_0 key=a value="+value))
	require.Equal(t, "cmd=put_result rc=-1 msg=value_longer_than_16384",
		o.say("cmd=put kvsname=kvs_ibrun_0 key=a value="+value+"v"))
	require.Equal(t, "cmd=barrier_out rc=0", o.say("cmd=barrier_in"))
	require.Equal(t, "cmd=get_result rc=0 msg=success value="+value, o.say("cmd=get kvsname=kvs_ibrun_0 key=a"))
}

// Our own library says what it takes; others are told what they always were.
func TestLongValuesAskedFor(t *testing.T) {
	for field, most := range map[string]string{
		"": "1024", " ibrun_values=16384": "16384", " ibrun_values=999999999": "16384", " ibrun_values=2049": "2048",
		" ibrun_values=8": "1024", " ibrun_values=-5": "1024", " ibrun_values=x": "1024", " ibrun_values=": "1024",
		" other_values=16384": "1024",
	} {
		o := newOwner(t, 1, func(rank int) Config { return usual(rank, 1) })
		require.Equal(t, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
			o.say("cmd=init pmi_version=1 pmi_subversion=1"+field), field)
		require.Equal(t, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max="+most+" rc=0", o.say("cmd=get_maxes"),
			field)
	}
	o := newOwner(t, 1, func(rank int) Config { return usual(rank, 1) })
	o.say("cmd=init pmi_version=1 pmi_subversion=1 ibrun_values=16384")
	port := strings.Repeat("p", MaxValue+1) // a port is no value: the tree takes so much
	require.Equal(t, "cmd=publish_result rc=-1 msg=port_too_long info=none", o.say("cmd=publish_name service=a port="+
		port))
}

func TestSpawn(t *testing.T) {
	e := one(t, 1).engines[0]
	first := "mcmd=spawn\nnprocs=2\nexecname=./a b\ntotspawns=2\nspawnssofar=1\nargcnt=2\n" +
		"arg1=x = y\narg2=cmd=abort\n" +
		"preput_num=1\npreput_key_0=k\npreput_val_0=v w\ninfo_num=1\ninfo_key_0=host\ninfo_val_0=n1\nendcmd\n"
	second := "mcmd=spawn\nnprocs=1\nexecname=c\ntotspawns=2\nspawnssofar=2\nargcnt=0\npreput_num=0\ninfo_num=0\n" +
		"endcmd\n"
	require.Empty(t, e.Feed([]byte(first)))
	require.Equal(t, []Step{{Request: Spawn{
		Commands: []Command{{Argv: []string{"./a b", "x = y", "cmd=abort"}, Ranks: 2, Hints: []Pair{{"host", "n1"}}},
			{Argv: []string{"c"}, Ranks: 1}},
		Preput: []Pair{{"k", "v w"}},
	}}}, e.Feed([]byte(second)))
	require.Equal(t, "cmd=spawn_result rc=0\n", string(e.Answer(Answer{})[0].Bytes))

	child := NewEngine(Config{Size: 2, JobID: "c", Spawner: "p;q"})
	child.Feed([]byte("cmd=init pmi_version=2 pmi_subversion=0\n"))
	require.Contains(t, string(child.Feed([]byte("    13cmd=fullinit;"))[0].Bytes),
		";pmiverbose=FALSE;rc=0;spawner-jobid=p;;q;")

	two := one(t, 2).engines[0] // what Slurm's PMI2_Job_Spawn sends
	text := "cmd=spawn;ncmds=2;preputcount=1;ppkey0=PARENT;ppval0=val " +
		"ue;;x;subcmd=./s2;maxprocs=2;argc=2;argv0=x;argv1=y " +
		"z;infokeycount=1;infokey0=wdir;infoval0=/tmp;subcmd=/bin/true;maxprocs=1;argc=0;infokeycount=0;"
	require.Equal(t, []Step{{Request: Spawn{
		Commands: []Command{{Argv: []string{"./s2", "x", "y z"}, Ranks: 2, Hints: []Pair{{"wdir", "/tmp"}}},
			{Argv: []string{"/bin/true"}, Ranks: 1}},
		Preput: []Pair{{"PARENT", "val ue;x"}},
	}}}, two.Feed(fmt.Appendf(nil, "%6d%s", len(text), text)))
	require.Equal(t, "    41cmd=spawn-response;rc=0;jobid=J2;nerrs=0;",
		string(two.Answer(Answer{Value: "J2"})[0].Bytes))

	require.Len(t, e.Feed([]byte("mcmd=spawn\nnprocs=1\nexecname=c\nendcmd\n")), 1)
	require.Equal(t, "cmd=spawn_result rc=-1 msg=not_supported:_no\n",
		string(e.Answer(Answer{Refused: "not supported: no"})[0].Bytes))
	for _, bad := range []string{"nprocs=0\nexecname=a\n", "nprocs=x\nexecname=a\n", "nprocs=1\n",
		"nprocs=1\nexecname=a\nargcnt=2\narg1=b\n", "nprocs=1\nexecname=a\nargcnt=2000000000\n"} {
		require.Equal(t, "cmd=spawn_result rc=-1 msg=malformed_spawn\n",
			string(e.Feed([]byte("mcmd=spawn\n" + bad + "endcmd\n"))[0].Bytes))
	}
	for value, why := range map[string]string{strings.Repeat("v", 1025): "value_longer_than_1024", strings.Repeat("v",
		1020): "value_too_long_for_a_line"} {
		require.Equal(t, "cmd=spawn_result rc=-1 msg=preput:_"+why+"\n",
			string(e.Feed([]byte("mcmd=spawn\nnprocs=1\nexecname=a\npreput_num=1\npreput_key_0=k\npreput_val_0=" +
				value + "\nendcmd\n"))[0].Bytes))
	}
}

func TestIdentify(t *testing.T) {
	e := NewEngine(usual(-1, 8))
	require.Equal(t, -1, e.cfg.Rank)
	require.Equal(t, []Step{{Request: Identify{5}}}, e.Feed([]byte("cmd=initack pmiid=5\n")))
	require.Equal(t, "cmd=initack rc=0\ncmd=set size=8\ncmd=set rank=5\ncmd=set debug=0\n",
		string(e.Answer(Answer{Rank: 5, App: 2})[0].Bytes))
	require.Equal(t, 5, e.cfg.Rank)
	e.Feed([]byte("cmd=init pmi_version=1 pmi_subversion=1\n"))
	require.Equal(t, "cmd=appnum appnum=2 rc=0\n", string(e.Feed([]byte("cmd=get_appnum\n"))[0].Bytes))

	e = NewEngine(usual(-1, 8)) // the engine accepts any pmiid; the owner checks its range
	require.Equal(t, []Step{{Request: Identify{2147483647}}}, e.Feed([]byte("cmd=initack pmiid=2147483647\n")))

	e = NewEngine(usual(5, 8)) // the pmiid equals the known rank
	require.Equal(t, "cmd=initack rc=0\ncmd=set size=8\ncmd=set rank=5\ncmd=set debug=0\n",
		string(e.Feed([]byte("cmd=initack pmiid=5\n"))[0].Bytes))

	e = NewEngine(usual(-1, 8))
	e.Feed([]byte("cmd=initack pmiid=5\n"))
	steps := e.Answer(Answer{Refused: "it is here already"})
	require.Len(t, steps, 2)
	require.Equal(t, "cmd=initack rc=-1 msg=it_is_here_already\n", string(steps[0].Bytes))
	require.EqualError(t, steps[1].Err, "pmi-1: no place for number 5: it is here already")
}
