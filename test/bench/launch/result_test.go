package launch

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/bench/figure"
)

func sample(group string, nodes, ppn int, mine, theirs float64) row {
	return row{Group: group, Nodes: nodes, PerNode: ppn, Rounds: 5, Machine: "2 x <a> & b", Ways: []way{
		{Name: ours, Median: mine, CPU: 9}, {Name: floorName, Median: 10, CPU: 8},
		{Name: hydra, Median: theirs}, {Name: openMPI, Median: 6 * mine},
	}}
}

// A case is kept once, in the plot's order, and comes back as it was.
func TestResultsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.json")
	k, err := load(file)
	require.NoError(t, err)
	k.put(sample("rsh", 64, 16, 100, 90))
	k.put(sample("ssh", 64, 1, 1, 2))
	k.put(sample("ssh", 4, 16, 1, 2))
	k.put(sample("rsh", 64, 16, 100, 150))
	require.NoError(t, k.save(file))
	again, err := load(file)
	require.NoError(t, err)
	require.Equal(t, k, again)
	require.Len(t, again.Rows, 3)
	require.Equal(t, 4, again.Rows[0].Nodes)
	require.Equal(t, 150.0, again.Rows[2].Ways[2].Median)
	require.Error(t, plot(filepath.Join(t.TempDir(), "none"), file), "nothing was measured")
}

func TestBoundsOfCases(t *testing.T) {
	for _, c := range []struct {
		r    row
		want string
	}{
		{sample("ssh", 64, 1, 100, 320), ""},
		{sample("ssh", 64, 16, 100, 319), "missed: 64 nodes x 16, ssh as shipped: mpiexec.hydra / ibrun"},
		{sample("ssh", 16, 1, 100, 1), ""}, // no bound is about it
		{sample("tuned", 64, 1, 100, 119), "missed: 64 nodes x 1, ssh with curve25519 for all: mpiexec.hydra / ibrun"},
		{sample("rsh", 64, 16, 100, 110), ""},
		{sample("rsh", 64, 1, 100, 109), "missed: 64 nodes x 1, rsh stand-in: mpiexec.hydra / ibrun"},
		{sample("rsh", 256, 1, 100, 100), ""},
		{sample("latency", 128, 1, 100, 199),
			"missed: 128 nodes x 1, rsh stand-in, 50 ms more for each session: mpiexec.hydra / ibrun"},
		{sample("here", 1, 16, 100, 99), "missed: this machine, 16 of hostname: mpiexec.hydra / ibrun"},
		{sample("own", 64, 1, 100, 100), ""},
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

// Installed or not, the bound is the same, and each has a line of its own.
func TestBoundsOfBoth(t *testing.T) {
	r := sample("rsh", 64, 16, 100, 115)
	r.Ways = append(r.Ways, way{Name: uninstalled, Median: 110})
	b := figure.Bounds{To: io.Discard}
	r.judge(&b)
	require.EqualError(t, b.Err(), "missed: 64 nodes x 16, rsh stand-in: mpiexec.hydra / ibrun, not installed")
}

// The picture is well formed whatever a machine is called, and has a bar for each way.
func TestPlot(t *testing.T) {
	k := results{Rows: []row{sample("ssh", 4, 1, 100, 2500), sample("rsh", 64, 16, 900, 600)}}
	var svg bytes.Buffer
	k.draw(&svg)
	require.Equal(t, 1+8, strings.Count(svg.String(), "<rect "))
	require.Contains(t, svg.String(), ">2.50 s, 0.0 ms CPU<")
	for dec := xml.NewDecoder(&svg); ; {
		_, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
}

func TestNamedCases(t *testing.T) {
	name, g, err := named("rsh:64x16")
	require.NoError(t, err)
	require.Equal(t, "rsh", name)
	require.Equal(t, []size{{64, 16}}, g.cases())
	require.True(t, g.stand)
	_, g, err = named("ssh")
	require.NoError(t, err)
	require.Len(t, g.cases(), 8)
	for _, bad := range []string{"", "none", "ssh:64", "ssh:x"} {
		_, _, err = named(bad)
		require.Error(t, err, bad)
	}
}
