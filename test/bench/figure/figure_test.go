package figure

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/waitfor"
)

func TestMedian(t *testing.T) {
	require.Zero(t, Median[int](nil))
	require.Equal(t, 3, Median([]int{9, 3, 1}))
	require.Equal(t, 2*time.Second, Median([]time.Duration{2 * time.Second, time.Second}))
}

func TestMachineIsOneLine(t *testing.T) {
	require.Regexp(t, `^\d+ x .+, Linux \d+\..+, go.+, load \d+\.\d\d$`, Machine())
}

func TestParseStoresArguments(t *testing.T) {
	var text string
	var number int
	var rest []string
	require.NoError(t, Parse([]string{"a", "2"}, &text, &number))
	require.NoError(t, Parse([]string{"b", "c", "d"}, &text, &rest))
	require.Equal(t, []any{"b", 2, []string{"c", "d"}}, []any{text, number, rest})
	for _, bad := range [][]string{{}, {"a"}, {"a", "0"}, {"a", "x"}, {"a", "1", "b"}} {
		require.Error(t, Parse(bad, &text, &number), bad)
	}
	require.Error(t, Parse([]string{"a"}, &text, &rest))
}

// TestMeasureTakesTurns requires that Measure calls two Ways alternately and returns the first error. It must drop
// the values of the first round if warm is 1, and store no value if Do returns ErrLeftOut.
func TestMeasureTakesTurns(t *testing.T) {
	var order string
	value := 0.0
	ours := &Way{Name: "ours", Do: func() (float64, error) { order, value = order+"a", value+2; return value, nil }}
	theirs := &Way{Name: "theirs", Do: func() (float64, error) {
		if order += "b"; len(order) == 4 {
			return 0, ErrLeftOut
		}
		return 2, nil
	}}
	require.NoError(t, Measure(1, 3, ours, theirs))
	require.Equal(t, "abababab", order)
	require.Equal(t, []float64{4, 6, 8}, ours.Values)
	require.Equal(t, []float64{2, 2}, theirs.Values)
	require.Equal(t, 3.0, ours.Over(theirs))
	failed := errors.New("failed")
	ours.Do = func() (float64, error) { return 0, failed }
	require.ErrorIs(t, Measure(0, 2, ours, theirs), failed)
	require.Equal(t, "abababab", order)
}

// TestRatioHasAnInterval requires that Ratio pairs the values of the same round. Of 15 ratios, three must lie on each
// side of the interval. Of 5 ratios, none may lie outside it.
func TestRatioHasAnInterval(t *testing.T) {
	var ours, theirs Way
	for i := range 15 {
		ours.Values, theirs.Values = append(ours.Values, float64(i*i)), append(theirs.Values, float64(max(i, 1)))
	}
	low, middle, high := ours.Ratio(&theirs)
	require.Equal(t, []float64{3, 7, 11}, []float64{low, middle, high})
	ours.Values = ours.Values[:5]
	low, middle, high = ours.Ratio(&theirs)
	require.Equal(t, []float64{0, 2, 4}, []float64{low, middle, high})
}

// TestRunEndsCommands requires that Run returns an error with the standard error of a command that fails, and that it
// kills a command that runs longer than patience.
func TestRunEndsCommands(t *testing.T) {
	r, err := Run(waitfor.Deadline, exec.Command("sh", "-c", "echo a"))
	require.NoError(t, err)
	require.Equal(t, "a\n", string(r.Out))
	_, err = Run(waitfor.Deadline, exec.Command("sh", "-c", "echo why >&2; exit 3"))
	require.EqualError(t, err, "sh: exit status 3: why\n")
	_, err = Run(time.Millisecond, exec.Command("sh", "-c", "sleep 600"))
	require.ErrorContains(t, err, "killed")
}

// TestBoundsAreParsed requires that ParseFigures finds the lines that Bounds has printed, and ignores all other
// lines.
func TestBoundsAreParsed(t *testing.T) {
	var text bytes.Buffer
	text.WriteString("a line: 3\n")
	b := Bounds{To: &text}
	b.AtLeast("two", 3, 3)
	require.NoError(t, b.Err())
	b.AtMost("one: auto", 1.25, 1.2)
	require.EqualError(t, b.Err(), "missed: one: auto")
	text.WriteString("x (bound: at most 3): met\n")
	require.Equal(t, []Figure{
		{"two", 3, "at least", 3, true}, {"one: auto", 1.25, "at most", 1.2, false},
	}, ParseFigures(text.Bytes()))
}

// TestKeepReplacesTheTable requires that Keep replaces the table that it has written for the same command, and does
// not change the text before and after the table.
func TestKeepReplacesTheTable(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(page, []byte("# Figures\n"), 0o644))
	add := func(line string) func(string) string { return func(before string) string { return before + line } }
	require.NoError(t, Keep(page, "make it", add("one\n")))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, "# Figures\n<!-- make it -->\none\n<!-- end of make it -->\n", string(text))
	require.NoError(t, os.WriteFile(page, append(text, "after\n"...), 0o644))
	require.NoError(t, Keep(page, "make it", add("two\n")))
	again, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, strings.Replace(string(text), "one\n", "one\ntwo\n", 1)+"after\n", string(again))
	require.ErrorContains(t, Keep(t.TempDir(), "make it", add("")), "directory")
}

func TestJobWritesFilesOfHosts(t *testing.T) {
	j, err := NewJob(t.TempDir(), 2, 16)
	require.NoError(t, err)
	require.Equal(t, 32, j.Ranks)
	for path, want := range map[string]string{
		j.Hydra: "node0001:16\nnode0002:16\n", j.OpenMPI: "node0001 slots=16\nnode0002 slots=16\n",
	} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}
