package pmi

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// said is a line of a recorded session.
type said struct {
	rank   int
	client bool
	text   string // without its end or length
	framed bool
}

var (
	saidForm = regexp.MustCompile(`^ *[0-9.]+ms r(-?\d+) ([<>!]) (\(v1 line\) )?(.*)$`)
	pmiid    = regexp.MustCompile(`pmiid=(\d+)`)
)

// sessions are the recorded ones, by name: of another server, but for the two
// slurm*, which are of Slurm's libpmi2 with this package. A client through a port has no
// rank before its first answer; it has its number's.
func sessions(t testing.TB) map[string][]said {
	names, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.Len(t, names, 8)
	all := map[string][]said{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
			m := saidForm.FindStringSubmatch(line)
			require.NotNil(t, m, line)
			if m[2] == "!" {
				continue // the recorder's own remark
			}
			rank, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			if rank < 0 {
				rank, err = strconv.Atoi(pmiid.FindStringSubmatch(m[4])[1])
				require.NoError(t, err)
			}
			framed := strings.Contains(m[4], ";") || strings.HasSuffix(name, "pmi2.txt") && m[3] == ""
			all[strings.TrimSuffix(filepath.Base(name), ".txt")] = append(all[strings.TrimSuffix(filepath.Base(name),
				".txt")], said{rank, m[2] == ">", m[4], framed})
		}
	}
	return all
}

func (s said) wire() string {
	if s.framed {
		return frame(s.text)
	}
	return s.text + "\n"
}

// TestTraces replays what real clients said, and compares byte for byte.
// Nothing is normalised: what the recording server chose is in the Config.
// Only a rank's own bytes are compared, not which rank was served first.
func TestTraces(t *testing.T) {
	for name, session := range sessions(t) {
		for _, piece := range []int{0, 1, 7} {
			t.Run(name+"/"+strconv.Itoa(piece), func(t *testing.T) {
				ranks := 0
				for _, s := range session {
					ranks = max(ranks, s.rank+1)
				}
				o := newOwner(t, ranks, func(rank int) Config {
					c := usual(rank, ranks)
					c.Universe = -1
					if strings.HasSuffix(name, ".port") {
						c.Rank = -1
					}
					return c
				})
				want := make([]string, ranks)
				for _, s := range session {
					if s.client {
						o.feed(s.rank, s.wire(), piece)
					} else {
						want[s.rank] += s.wire()
					}
				}
				for rank := range ranks {
					require.NoError(t, o.errs[rank])
					require.Equal(t, want[rank], string(o.out[rank]), "rank %d", rank)
					require.Equal(t, !strings.Contains(name, "abort"), o.engines[rank].Finalized())
					require.Equal(t, rank, o.engines[rank].Rank())
				}
				last := map[string]Request{"abort": Abort{Code: 7}, "slurm_abort.pmi2": Abort{Code: 1,
					Text: "the end; now"}}
				if want, ok := last[name]; ok {
					require.Equal(t, want, o.asked[1][len(o.asked[1])-1])
				}
			})
		}
	}
}

// keys are the names of a message's fields, in order.
func keys(m message) (all []string) {
	for _, f := range m.fields {
		all = append(all, f.Key)
	}
	return all
}

// TestGrammar holds the table against the recorded sessions, row by row: the
// fields that clients send, the reply's fields in their order, and what the
// engine asks of its owner.
func TestGrammar(t *testing.T) {
	recorded := map[string]bool{}
	for name, session := range sessions(t) {
		replies := map[int][]said{}
		for _, s := range session {
			if !s.client {
				replies[s.rank] = append(replies[s.rank], s)
			}
		}
		for _, s := range session {
			if !s.client {
				continue
			}
			parse, version, between, end := parseLine, 1, " ", ""
			if s.framed {
				parse, version, between, end = parseFrame, 2, ";", ";"
			}
			m, err := parse(s.text)
			require.NoError(t, err, s.text)
			c := find(version, m.cmd)
			require.NotNil(t, c, s.text)
			recorded[strconv.Itoa(version)+" "+m.cmd] = true
			sent := keys(m)
			var may []string
			for _, field := range strings.Fields(c.in) {
				if optional, ok := strings.CutPrefix(field, "?"); ok {
					may = append(may, optional)
				} else {
					may = append(may, field)
					require.Contains(t, sent, field, s.text)
				}
			}
			require.Subset(t, may, sent, "%s: %s", name, s.text)
			if c.reply == "" || strings.HasSuffix(name, "abort.pmi2") && len(replies[s.rank]) == 0 {
				continue // none, or the job ended first
			}
			form := c.ok
			reply := replies[s.rank][0].text
			for range strings.Count(c.ok, "\n") + 1 {
				replies[s.rank] = replies[s.rank][1:]
			}
			if strings.Contains(reply, "not_found") || strings.Contains(reply, "found=FALSE") {
				form = c.absent
			}
			form, _, _ = strings.Cut(form, "\n")
			want, err := parse("cmd=" + c.reply + between + form + end)
			require.NoError(t, err)
			got, err := parse(reply)
			require.NoError(t, err)
			require.Equal(t, want.cmd, got.cmd)
			require.Equal(t, keys(want), keys(got), s.text)
		}
	}
	var unseen []string
	for _, c := range grammar {
		if name := strconv.Itoa(c.version) + " " + c.name; !recorded[name] {
			unseen = append(unseen, name)
		}
	}
	require.Equal(t, []string{"1 spawn", "2 spawn"}, unseen, "rows that no recorded session uses")
}

// TestGrammarRequests gives each row a command and looks at the request.
func TestGrammarRequests(t *testing.T) {
	values := map[string]string{"kvsname": "kvs_ibrun_0", "ring-count": "1", "pmirank": "0", "pmiid": "0",
		"pmi_version": "1", "pmi_subversion": "1", "jobid": ""}
	for _, c := range grammar {
		t.Run(strconv.Itoa(c.version)+" "+c.name, func(t *testing.T) {
			text, between := "cmd="+c.name, " "
			if c.version == 2 {
				between = ";"
			}
			for _, field := range strings.Fields(strings.ReplaceAll(c.in, "?", "")) {
				value, ok := values[field]
				if !ok {
					value = "7"
				}
				text += between + field + "=" + value
			}
			o := one(t, c.version)
			switch {
			case c.name == "initack":
				cfg := usual(0, 1)
				cfg.Rank = -1
				o = newOwner(t, 1, func(int) Config { return cfg })
			case c.name == "spawn" && c.version == 1:
				text = "mcmd=spawn\n" + strings.ReplaceAll(strings.TrimPrefix(text, "cmd=spawn "), " ", "\n") +
					"\narg1=1\narg2=1\narg3=1\narg4=1\narg5=1\narg6=1\narg7=1\nendcmd"
			case c.name == "spawn":
				text = "cmd=spawn;ncmds=1;subcmd=a;maxprocs=1;"
			case c.version == 2:
				text += ";"
			}
			o.asked[0] = nil
			reply := o.say(text)
			require.NoError(t, o.errs[0])
			if c.reply != "" {
				require.Contains(t, reply, "cmd="+c.reply)
			} else {
				require.Empty(t, reply)
			}
			if c.makes == nil {
				require.Empty(t, o.asked[0])
				return
			}
			require.Len(t, o.asked[0], 1)
			require.Equal(t, reflect.TypeOf(c.makes), reflect.TypeOf(o.asked[0][0]))
		})
	}
}
