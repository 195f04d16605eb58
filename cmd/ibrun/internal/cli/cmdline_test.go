package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func small() *grammar {
	return grammar{
		options: []option{{names: "n np", takes: value}, {names: "v verbose"}, {names: "env", takes: pair},
			{names: "K kill", takes: optional}, {names: "h help", last: true}, {names: "bind", takes: value}},
		plus:    map[string]string{"p": "np"},
		refused: map[string]string{"N": "write -n", "p": "write -n"},
		words:   map[string][2]string{"affinity": {"bind", "auto"}},
		short:   map[string][2]string{"tight": {"bind", "core"}},
	}.indexed()
}

func TestParse(t *testing.T) {
	for line, want := range map[string][]Program{
		"-n 2 a -n 3": {{Given: []Given{{0, "-n", "2", false}}, Argv: []string{"a", "-n", "3"}}},
		"--np=2 ++p 3 -n4 a": {{Given: []Given{{0, "--np", "2", false}, {0, "++p", "3", false}, {0, "-n", "4", false}},
			Argv: []string{"a"}}},
		"-env A b -env C=d a": {{Given: []Given{{2, "-env", "A=b", false}, {2, "-env", "C=d", false}},
			Argv: []string{"a"}}},
		"-K -v -K=0 a": {{Given: []Given{{3, "-K", "", false}, {1, "-v", "", false}, {3, "-K", "0", false}},
			Argv: []string{"a"}}},
		"A=1 -v B=2 a C=3": {{Given: []Given{{1, "-v", "", false}}, Sets: []string{"A=1", "B=2"}, Argv: []string{"a",
			"C=3"}}},
		"a x : -v b":  {{Argv: []string{"a", "x"}}, {Given: []Given{{1, "-v", "", false}}, Argv: []string{"b"}}},
		"-- A=1 : -v": {{Argv: []string{"A=1", ":", "-v"}}},
		"affinity a":  {{Given: []Given{{5, "affinity", "auto", true}}, Argv: []string{"a"}}},
		"--tight -tight a": {{Given: []Given{{5, "--tight", "core", true}, {5, "-tight", "core", true}},
			Argv: []string{"a"}}},
		"affinity":    {{Argv: []string{"affinity"}}},
		"-h --nosuch": {{Given: []Given{{4, "-h", "", false}}, Last: true}},
		"- +x":        {{Argv: []string{"-", "+x"}}},
		"":            {{Argv: []string{}}},
	} {
		got, err := small().Parse(strings.Fields(line))
		require.NoError(t, err, line)
		require.Equal(t, want, got, line)
	}
	for line, why := range map[string]string{
		"-n": "no value", "-env A": "no value", "-v=1 a": "takes no value", "-N 2": "write -n", "-N2": "write -n",
		"-p 3":       "write -n",
		"--verbse a": "did you mean --verbose?", "--zzzzzz": "-h shows", "---n 2": "unknown",
		"--tight=core a": "takes no value", "--tigth a": "did you mean --tight?", "--": "", "++": "unknown",
		"-v3": "unknown",
	} {
		_, err := small().Parse(strings.Fields(line))
		if why == "" {
			require.NoError(t, err, line)
			continue
		}
		require.ErrorContains(t, err, why, line)
	}
	for _, bad := range []grammar{
		{options: []option{{names: "a"}, {names: "b a"}}},
		{short: map[string][2]string{"a": {"b", ""}}},
		{options: []option{{names: "a"}}, short: map[string][2]string{"a": {"a", ""}}},
	} {
		require.Panics(t, func() { bad.indexed() })
	}
}

func TestSplit(t *testing.T) {
	w, err := Split(`-n 2  'a\ b' "c\"d\n" e\ f ''`)
	require.NoError(t, err)
	require.Equal(t, []string{"-n", "2", `a\ b`, `c"d\n`, "e f", ""}, w)
	_, err = Split(`'a`)
	require.ErrorContains(t, err, "not closed")
}

func TestDistance(t *testing.T) {
	require.Equal(t, 3, Distance("kitten", "sitting"))
	require.Equal(t, "hosts", Nearest("hsots", []string{"hosts", "host"}))
	require.Empty(t, Nearest("x", []string{"n"}))
}

// What parses keeps the program's words as they are: they are the line's tail,
// and no word is lost or made up.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"-n\x002\x00a\x00b", "a\x00:\x00--\x00b\x00:", "-env\x00A=1\x00X=2\x00a",
		"-n9\x00-\x00affinity"} {
		f.Add(s)
	}
	p := small()
	f.Fuzz(func(t *testing.T, s string) {
		words := strings.Split(s, "\x00")
		programs, err := p.Parse(words)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		last := programs[len(programs)-1]
		if !last.Last {
			require.Equal(t, words[len(words)-len(last.Argv):], last.Argv)
		}
	})
}
