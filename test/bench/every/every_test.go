package every

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// outputs are those of targets, which fail if they miss a bound.
type outputs map[string]string

func (o outputs) measure(name string) ([]byte, error) {
	if text := o[name]; !strings.Contains(text, "MISSED") && text != "" {
		return []byte(text), nil
	}
	return []byte(o[name]), errors.New("exit status 2")
}

// What benchmarks found is kept, those that missed first, and the next run says what has changed by
// more than the noise.
func TestRuns(t *testing.T) {
	dir := t.TempDir()
	file, page := filepath.Join(dir, "f.json"), filepath.Join(dir, "p.md")
	var said strings.Builder
	found := outputs{
		"bench-a": "one: 1.00 (bound: at most 1.20): met\ntwo: 0.50 (bound: at least 1.00): MISSED\n",
		"bench-b": "three: 2.00 (bound: at least 1.00): met\n",
	}
	err := all(file, page, []string{"bench-b", "bench-a", "bench-c"}, found.measure, &said)
	require.EqualError(t, err, "bench-a: 1 of 2 bounds missed\nbench-c: exit status 2")
	require.Empty(t, said.String(), "there was no run before")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, rows, _ := strings.Cut(string(text), "| --- | --- | --- | --- | --- | --- |\n")
	require.Equal(t, "| bench-a | two | 0.50 |  | at least 1.00 | **missed** |\n"+
		"| bench-c | exit status 2 | | | | failed |\n"+
		"| bench-b | three | 2.00 |  | at least 1.00 | hit |\n"+
		"| bench-a | one | 1.00 |  | at most 1.20 | hit |\n<!-- end of make bench-all -->\n", rows)

	found["bench-a"] = "one: 1.14 (bound: at most 1.20): met\ntwo: 1.50 (bound: at least 1.00): met\n"
	require.NoError(t, all(file, page, []string{"bench-a"}, found.measure, &said))
	require.Equal(t, "bench-a: two: 1.50, was 0.50\n", said.String())
	kept, err := read(file)
	require.NoError(t, err)
	require.Equal(t, []string{"bench-a", "bench-b", "bench-c"},
		[]string{kept.Targets[0].Name, kept.Targets[1].Name, kept.Targets[2].Name}, "what was not measured stays")
	require.Equal(t, []float64{1}, kept.Targets[0].Figures[0].Before)

	// Values between earlier ones are noise.
	said.Reset()
	found["bench-a"] = "one: 1.05 (bound: at most 1.20): met\ntwo: 0.90 (bound: at least 1.00): MISSED\n"
	require.Error(t, all(file, page, []string{"bench-a"}, found.measure, &said))
	require.Empty(t, said.String())
	require.ErrorContains(t, all(dir, page, nil, found.measure, &said), "directory")
}

func TestTooLong(t *testing.T) {
	require.EqualError(t, (&run{Minutes: 41}).err(), "all benchmarks took 41 minutes, more than 40")
	require.ErrorContains(t, Run(nil), "usage")
}
