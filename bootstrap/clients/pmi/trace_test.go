package pmi

import (
	"os"
	"path/filepath"
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
		return frameOf(s.text)
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
					require.Equal(t, rank, o.engines[rank].cfg.Rank)
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
