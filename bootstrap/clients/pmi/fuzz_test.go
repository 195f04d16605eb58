package pmi

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzFeed gives an engine any bytes, in two kinds of pieces, with an owner that
// refuses, finds and misses by turns. It must not panic, what it sends must be
// well formed and bounded, it must keep little, and the pieces must not matter.
func FuzzFeed(f *testing.F) {
	for _, session := range sessions(f) {
		var text strings.Builder
		for _, s := range session {
			if s.client && s.rank == 0 {
				text.WriteString(s.wire())
			}
		}
		f.Add([]byte(text.String()), uint8(3), strings.Contains(text.String(), "initack"))
	}
	two := "cmd=init pmi_version=2 pmi_subversion=0\n" + frameOf("cmd=fullinit;pmirank=0;threaded=TRUE;thrid=0x1;")
	for _, text := range []string{
		"cmd=init pmi_version=1 " +
			"pmi_subversion=1\nmcmd=spawn\nnprocs=2\nexecname=a\ntotspawns=1\nspawnssofar=1\nargcnt=1\narg1=x " +
			"y\npreput_num=1\npreput_key_0=k\npreput_val_0=v\nendcmd\n",
		two + frameOf("cmd=info-putnodeattr;key=a;value=;;b;;;") + frameOf("cmd=info-getnodeattr;key=a;wait=TRUE;"),
		two + frameOf("cmd=name-publish;name=s;port=p;infokeycount=0;") + frameOf("cmd=name-lookup;name=s;") +
			frameOf("cmd=name-unpublish;name=s;"),
		two + frameOf("cmd=abort;isworld=TRUE;msg=so;"),
		two + frameOf("cmd=ring;ring-count=1;ring-left=a;ring-right=b;thrid=2;") + frameOf("cmd=what;"),
		"cmd=put kvsname=kvs_ibrun_0 key=a value=b\n",
		"cmd=init pmi_version=1 pmi_subversion=1\ncmd=get kvsname=" + strings.Repeat("a", 1000) + "\x00" +
			strings.Repeat("a", 9000) + "\n",
		"cmd=init pmi_version=1 pmi_subversion=1 ibrun_values=2048\ncmd=get_maxes\ncmd=put kvsname=kvs_ibrun_0 key=a " +
			"value=" + strings.Repeat("b", 2000) + "\n",
	} {
		f.Add([]byte(text), uint8(1), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, piece uint8, port bool) {
		if len(b) > 1<<16 {
			return
		}
		whole, end := drive(t, b, len(b)+1, port)
		pieces, endPieces := drive(t, b, int(piece)+1, port)
		require.Equal(t, string(whole), string(pieces))
		require.Equal(t, end, endPieces)
	})
}

// drive feeds bytes to a new engine and returns what it sent, and its error.
func drive(t *testing.T, b []byte, piece int, port bool) (out []byte, last string) {
	cfg := usual(0, 3)
	if port {
		cfg.Rank = -1
	}
	e := NewEngine(cfg)
	turn := 0
	var steps []Step
	take := func() {
		for len(steps) > 0 {
			s := steps[0]
			steps = steps[1:]
			require.Empty(t, last, "a step after an error")
			switch r := s.Request.(type) {
			case nil:
				out = append(out, s.Bytes...)
				if s.Err != nil {
					last = s.Err.Error()
					require.Empty(t, steps)
				}
			case Finalize, Abort:
			default:
				if p, ok := r.(Put); ok {
					require.LessOrEqual(t, len(p.Key), MaxKey)
					require.LessOrEqual(t, len(p.Value), e.cfg.MaxValue)
				}
				require.NotNil(t, e.asked)
				turn++
				answer := Answer{Found: turn%2 == 0, Value: strings.Repeat("v ;", turn%400), Left: "l;", Right: "r"}
				if turn%5 == 0 {
					answer.Refused = strings.Repeat("not; now\n", turn%20)
				}
				steps = append(steps, e.Answer(answer)...)
			}
		}
		require.LessOrEqual(t, len(e.in), e.mostFrame()+lengthSize)
	}
	for ; len(b) > 0; b = b[min(piece, len(b)):] {
		steps = append(steps, e.Feed(b[:min(piece, len(b))])...)
		take()
	}
	checkOutput(t, e, out)
	return out, last
}

// checkOutput takes apart all that an engine sent.
func checkOutput(t *testing.T, e *Engine, out []byte) {
	for len(out) > 0 {
		require.True(t, bytes.HasPrefix(out, []byte("cmd=")), "%q", out)
		line, rest, ok := bytes.Cut(out, []byte("\n"))
		require.True(t, ok, "%q", out)
		require.Less(t, len(line), e.mostReply())
		require.NotContains(t, string(line), "\x00")
		m, err := parseLine(string(line))
		require.NoError(t, err)
		require.Empty(t, m.odd, "%q", line)
		if out = rest; e.Version() == 2 && m.cmd == "response_to_init" && m.value("rc") == "0" {
			break
		}
	}
	for _, text := range frames(t, string(out)) {
		m, err := parseFrame(text)
		require.NoError(t, err, "%q", text)
		require.LessOrEqual(t, len(text), maxFrame)
		require.NotContains(t, text, "\x00")
		require.Contains(t, m.cmd, "-response")
		require.NotEmpty(t, m.value("rc"))
	}
}
