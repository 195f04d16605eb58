package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/exit"
	"ibrun/internal/plain"
)

// parse reads a command line that names no file.
func parseLine(line []string) (*Request, error) {
	return Parse(line, func(name string) ([]byte, error) { return nil, fmt.Errorf("%s is opened", name) })
}

func TestRefusedPlacement(t *testing.T) {
	for line, want := range map[string]string{
		"--bind-to cores":                    "is not known",
		"--map-by nodes":                     "is not known",
		"--map-by ppr:2":                     "write ppr:N:node",
		"--map-by ppr:2:rack":                "is not known",
		"--map-by core:PE=0":                 "not a whole number",
		"--map-by core:PE=2 -c 3":            "contradict",
		"--map-by core:SPUN":                 "modifier",
		"--cpu-bind map_cpu:0,2,0x":          "is not a list of processors",
		"--cpu-bind mask_cpu:":               "is not a list of processors",
		"--cpu-bind rank":                    "is not known",
		"-m cyclic --map-by node -m plane=2": "contradicts",
		"-m plane=2 --rank-by node":          "number the ranks",
		"--rank-by package:3":                "is not known",
		"--hca $(x)":                         "names no device",
	} {
		_, err := parseLine(append(strings.Fields(line), "true"))
		require.ErrorContains(t, err, want, line)
		require.Equal(t, exit.Usage, exit.Code(err))
	}
}

// What is not done is refused.
func TestNoOptionIsIgnored(t *testing.T) {
	for line, why := range map[string]string{
		"--rank-by l1cache":                             "is not known",
		"--rank-by span":                                "goes with --map-by OBJECT",
		"--map-by core --rank-by span -m cyclic":        "number the ranks",
		"-m cyclic --rank-by slot":                      "number the ranks",
		"-m block --rank-by node":                       "number the ranks",
		"-m block:cyclic:block":                         "the third word, block,",
		"-m block:block:cyclic":                         "the third word, cyclic,",
		"-m block:*:fcyclic":                            "the third word, fcyclic,",
		"-m block:block:block:block":                    "more than three",
		"-m block:cyclic:x":                             "x is not known",
		"-m cyclic,Pack":                                "pack after cyclic is not done",
		"-m block,Lump":                                 "lump after block",
		"-m plane=2,NoPack":                             "is not done",
		"-m block:fcyclic -c 2":                         "write cyclic",
		"-m block:cyclic --map-by core":                 "contradicts",
		"--map-by package -m *:block":                   "contradicts",
		"--bind-to core --cpu-bind sockets":             "contradicts",
		"--oversubscribe --nooversubscribe":             "contradicts",
		"--map-by slot:NOOVERSUBSCRIBE --oversubscribe": "contradicts",
		"--map-by load:NOOVERSUBSCRIBE":                 "contradicts",
		"--topo-input /x -n 1":                          "goes with --dry-run",
	} {
		_, err := parseLine(append(strings.Fields(line), "true"))
		require.ErrorContains(t, err, why, line)
		require.Equal(t, exit.Usage, exit.Code(err), line)
	}
}

// No line makes the parser fail otherwise than by saying so, and nothing is
// opened or run: a configuration file is the line's own first word.
func FuzzCommandLine(f *testing.F) {
	for _, s := range []string{"-n\x002\x00true", "--hosts\x00a,b\x00--tree=kary:2\x00x", "-x\x00A=b\x00:\x00-",
		"-env\x00A\x00b\x00p\x00:\x00q", "-configfile\x00-n 2 'a b'\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Parse(strings.Split(s, "\x00"), func(name string) ([]byte, error) { return []byte(name), nil })
		if err != nil {
			require.Equal(t, exit.Usage, exit.Code(err))
			require.NotEmpty(t, plain.Text(err.Error()))
		} else if r.Action == Run {
			require.NotEmpty(t, r.Segments)
		}
	})
}

// A job that restarts ranks repairs its tree, unless it is told otherwise or restarts all.
func TestRepairIsTheDefaultOfRestart(t *testing.T) {
	for line, want := range map[string][2]bool{ // repairs, and that was asked for
		"true":                      {},
		"--on-failure restart true": {true, false},
		"--on-failure restart --on-agent-loss repair true": {true, true},
		"--on-agent-loss repair --on-failure restart true": {true, true},
		"--on-agent-loss end --on-failure restart true":    {},
		"--on-failure restart-all true":                    {},
		"--on-failure continue true":                       {},
	} {
		r, err := parseLine(strings.Fields("-n 2 " + line))
		require.NoError(t, err, line)
		require.Equal(t, want, [2]bool{r.Launch.Repair, r.RepairAsked}, line)
	}
	_, err := parseLine(strings.Fields("-n 2 --on-failure restart-all --on-agent-loss repair true"))
	require.ErrorContains(t, err, "--on-failure restart-all contradicts --on-agent-loss repair")
}
