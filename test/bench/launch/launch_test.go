package launch

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/bench/figure"
)

// sample returns the row of the first size of a case. mine and theirs are the times of a launch by ibrun and by
// mpiexec.hydra, in milliseconds. A launch by mpirun takes six times mine.
func sample(t *testing.T, name string, mine, theirs float64) row {
	g, sizes, err := parseCase(name)
	require.NoError(t, err)
	way := func(name string, ms, cpu float64) *contestant {
		return &contestant{Way: figure.Way{Name: name, Values: []float64{ms}}, cpus: []float64{0, cpu}}
	}
	return row{group: g, size: sizes[0], rounds: 5, machine: "2 x a", ways: []*contestant{
		way(ours, mine, 9), way(floorName, 10, 8), way(hydra, theirs, 9), way(openMPI, 6*mine, 9)}}
}

func TestBoundsOfCases(t *testing.T) {
	for _, c := range []struct {
		r    row
		want string
	}{
		{sample(t, "ssh:64x1", 100, 320), ""},
		{sample(t, "ssh:64x16", 100, 319), "missed: 64 nodes x 16, ssh as shipped: mpiexec.hydra / ibrun"},
		{sample(t, "ssh:16x1", 100, 1), ""}, // launches on 16 nodes have no bound
		{sample(t, "tuned", 100, 119), "missed: 64 nodes x 1, ssh with curve25519 for all: mpiexec.hydra / ibrun"},
		{sample(t, "rsh:64x16", 100, 110), ""},
		{sample(t, "rsh:64x1", 100, 109), "missed: 64 nodes x 1, rsh stand-in: mpiexec.hydra / ibrun"},
		{sample(t, "rsh:256x1", 100, 100), ""},
		{sample(t, "latency", 100, 199),
			"missed: 128 nodes x 1, rsh stand-in, 50 ms more for each session: mpiexec.hydra / ibrun"},
		{sample(t, "here:1x16", 100, 99), "missed: this machine, 16 of hostname: mpiexec.hydra / ibrun"},
		{sample(t, "own", 100, 100), ""},
	} {
		b := figure.Bounds{To: io.Discard}
		c.r.judge(&b)
		if c.want == "" {
			require.NoError(t, b.Err())
		} else {
			require.EqualError(t, b.Err(), c.want)
		}
	}
}

// TestBoundsOfInstalledAndCopiedPrograms requires that the same bound is applied to an installed ibrun and to
// one that is not installed.
func TestBoundsOfInstalledAndCopiedPrograms(t *testing.T) {
	r := sample(t, "rsh:64x16", 100, 115)
	r.ways = append(r.ways, &contestant{Way: figure.Way{Name: uninstalled, Values: []float64{110}}})
	b := figure.Bounds{To: io.Discard}
	r.judge(&b)
	require.EqualError(t, b.Err(), "missed: 64 nodes x 16, rsh stand-in: mpiexec.hydra / ibrun, not installed")
}

// TestCasesAreKeptInATable requires that save replaces the line of a case that is already in the file, and does not
// change the order of the lines.
func TestCasesAreKeptInATable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "launches.tsv")
	for _, r := range []row{sample(t, "ssh:4x16", 1, 2), sample(t, "ssh:64x1", 1, 2), sample(t, "ssh:4x16", 3, 4)} {
		require.NoError(t, r.save(file))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Regexp(t, "^case\trounds\tmachine\tibrun\tibrun, CPU\t.*\tmpirun, CPU\n"+
		"4 nodes x 16, ssh as shipped\t5\t2 x a\t3.00\t9.00\t\t\t\t\t10.00\t8.00\t4.00\t9.00\t18.00\t9.00\n"+
		"64 nodes x 1, ssh as shipped\t.*\n$", string(text))
}

func TestCasesAreParsed(t *testing.T) {
	g, sizes, err := parseCase("rsh:64x16")
	require.NoError(t, err)
	require.Equal(t, []size{{64, 16}}, sizes)
	require.True(t, g.stand)
	_, sizes, err = parseCase("ssh")
	require.NoError(t, err)
	require.Len(t, sizes, 8)
	for _, bad := range []string{"", "none", "ssh:64", "ssh:x"} {
		_, _, err = parseCase(bad)
		require.Error(t, err, bad)
	}
}
