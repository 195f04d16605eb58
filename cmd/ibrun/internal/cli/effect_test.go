package cli_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/cmd/ibrun/internal/plan"
	"ibrun/cmd/ibrun/internal/report"
	"ibrun/cmd/ibrun/internal/run"
	"ibrun/internal/libpmi"
	"ibrun/topo/capture"
	"ibrun/topo/topotest"
)

// effect is one line of a table that says of each option, and of each word that it takes, what it
// changes. A new option without a line fails the test.
type effect struct {
	with string // the option as written; FILE is what files says
	base string // other options, with and without it; empty: -n 4 -H a:2,b:2
	prog string // empty: true; NONE: none; a plus is a blank within a word
	env  string // a variable besides

	shows   string // a run shows this, and does not without the option; empty: the plan is another one
	refused string // it is not obeyed, and this is said
	nothing string // nothing changes; what docs/cli.md has of it under "Without effect"
}

// files are what options name, by the word that stands for it in the table.
func files(t *testing.T) map[string]string {
	dir := t.TempDir()
	ranger := filepath.Join(dir, "ranger")
	require.NoError(t, os.CopyFS(ranger, topotest.Ranger.Files()))
	named := map[string]string{"DIR": dir, "RANGER": ranger, "ABSENT": filepath.Join(dir, "absent")}
	for name, text := range map[string]string{
		"HOSTS": "x:2\ny:2\n", "CONFIG": "-n 2 true one\n-n 3 true two\n",
		"MULTI": "0-1 true a\n* true b\n", "INPUT": "typed\n",
		"RANKS": "rank 0=b slot=0\nrank 1=a slot=0\n",
	} {
		named[name] = filepath.Join(dir, strings.ToLower(name))
		require.NoError(t, os.WriteFile(named[name], []byte(text), 0o600))
	}
	return named
}

// observed is all of a plan that agents, ranks or the user can see.
func observed(t *testing.T, line []string, env ...string) (string, error) {
	t.Helper()
	at := plan.Surroundings{Host: "login1.cluster", User: "u", Cwd: "/", Read: cli.ReadTextFile, Machine: capture.Machine,
		Has: func(string) bool { return true },
		Env: []string{"PATH=/usr/bin:/bin", "HOME=/h", "DISPLAY=:0"}}
	at.Env = append(at.Env, env...)
	r, err := cli.Parse(line, cli.ReadTextFile)
	if err != nil {
		return "", err
	}
	p, err := run.Prepared(plan.New(r, at, plan.Identity{}))
	if err != nil {
		return "", err
	}
	first := frame.Append(nil, wire.Launch{Job: p.Job, Nodes: p.Nodes})
	var alloc strings.Builder
	report.DescribeAllocation(&alloc, p)
	return fmt.Sprintf("%q\n%+v\n%v %d %+v %s", first, p.Policy, p.Shape, p.Here, plan.Offspring(r),
		alloc.String()), nil
}

// words splits a line of the table.
func words(line string, named map[string]string) (all []string) {
	for _, w := range strings.Fields(line) {
		for _, name := range slices.Sorted(maps.Keys(named)) {
			w = strings.ReplaceAll(w, name, named[name])
		}
		all = append(all, w)
	}
	return all
}

func TestEveryOptionHasAnEffect(t *testing.T) {
	named := files(t)
	text, err := os.ReadFile("../../../../docs/cli.md")
	require.NoError(t, err)
	_, nothing, _ := strings.Cut(string(text), "### Without effect\n")
	nothing, _, _ = strings.Cut(nothing, "\n### ")
	g := cli.OptionGrammar()
	covered := map[int]map[string]bool{} // words, by option
	for _, e := range effects {
		if e.with == "--mpi openmpi" && libpmi.Image() == nil {
			e.refused = libpmi.ErrNone.Error()
		}
		with, base := words(e.with, named), words(e.base, named)
		if e.base == "" {
			base = []string{"-n", "4", "-H", "a:2,b:2"}
		}
		program := words(cmp.Or(e.prog, "true"), named)
		if e.prog == "NONE" {
			program = nil
		}
		for i, w := range program {
			program[i] = strings.ReplaceAll(w, "+", " ")
		}
		given, err := g.Parse(slices.Concat(with, []string{"true"}))
		require.NoError(t, err, e.with)
		for _, o := range given[0].Given {
			if covered[o.Option] == nil {
				covered[o.Option] = map[string]bool{}
			}
			covered[o.Option][o.Value] = true
		}
		t.Run(e.with, func(t *testing.T) {
			line, plain := slices.Concat(with, base, program), slices.Concat(base, program)
			switch {
			case e.refused != "":
				_, err := observed(t, line, e.env)
				require.ErrorContains(t, err, e.refused, e.with)
			case e.shows != "":
				shown := regexp.MustCompile(e.shows)
				require.Regexp(t, shown, started(t, line), "%s: with it", e.with)
				require.NotRegexp(t, shown, started(t, plain), "%s: without it", e.with)
			default:
				// An option may be what makes a line possible.
				without, _ := observed(t, plain, e.env)
				has, err := observed(t, line, e.env)
				require.NoError(t, err, e.with)
				if e.nothing == "" {
					require.NotEqual(t, without, has, "%s has no effect on %v", e.with, plain)
					return
				}
				require.Equal(t, without, has, e.with)
				require.Contains(t, nothing, "`"+e.nothing, e.with)
			}
		})
	}
	for i, row := range cli.Table() {
		require.NotEmpty(t, covered[i], "what does %s change? write a line for it", row.Names)
		for _, w := range row.Words {
			require.True(t, covered[i][w], "what does %s=%s change? write a line for it", row.Names, w)
		}
	}
	for name, stands := range cli.Short {
		require.Contains(t, effectLines(), "--"+name, "what does it change? write a line for it")
		require.NotEmpty(t, stands[0])
	}
	for _, list := range []struct {
		option string
		words  []string
	}{
		{"--map-by ", slices.Collect(maps.Keys(cli.Objects))},
		{"--bind-to ", slices.Collect(maps.Keys(cli.Objects))},
		{"--map-by ", []string{"slot", "node", "load", "ppr:2:node", ":PE=2",
			":SPAN", ":OVERSUBSCRIBE", ":NOOVERSUBSCRIBE", ":NOLOCAL"}},
		{"--cpu-bind ", slices.Collect(maps.Keys(cli.CPUBinds))},
		{"-m ", []string{"block", "cyclic", "plane=2", "*", "*:block", "*:cyclic", "*:fcyclic"}},
		{"--display ", []string{"map", "allocation", "bind", "topo"}},
		{"--launcher ", []string{"auto", "ssh", "rsh", "local", "fork", "slurm", "sge", "lsf", "flux", "pbs"}},
	} {
		for _, w := range list.words {
			require.Contains(t, effectLines(), list.option+w)
		}
	}
}

// effectLines are the options of the table, a line each.
func effectLines() (all []string) {
	for _, e := range effects {
		all = append(all, e.with)
	}
	return all
}

// The whole of what an agent is told is in what is compared.
func TestObservedSeesAll(t *testing.T) {
	seen, err := observed(t, []string{"-n", "1", "true"})
	require.NoError(t, err)
	for _, option := range []string{"--timeout 7", "--kill-grace 9", "-x A=b", "--fabric udp", "--bind-to core",
		"--spares 1"} {
		other, err := observed(t, append(strings.Fields(option), "-H", "a,b", "true"))
		require.NoError(t, err)
		require.NotEqual(t, seen, other)
	}
}
