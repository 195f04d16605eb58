package launch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"ibrun/bootstrap/timing"
	"ibrun/test/bench/figure"
)

// Latencies that are added to each session, and numbers of nodes. Sweep measures each combination.
var (
	sweepLatencies = []time.Duration{0, 50 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}
	sweepNodes     = []int{16, 64, 256}
)

// Sweep launches one rank on each node, and writes medians in milliseconds to FILE, with a block of lines for each
// number of nodes. plot/sweep.gp plots FILE.
func Sweep(args []string) error {
	var ibrun, file string
	var rounds int
	if err := figure.Parse(args, &ibrun, &rounds, &file); err != nil {
		return err
	}
	table := "# " + figure.Machine() + "\n"
	for _, nodes := range sweepNodes {
		table += "added time of a session\tpredicted, agents up\tmeasured, agents up\tibrun, whole job\t" +
			"mpiexec.hydra, whole job\tbare sessions\n"
		for _, latency := range sweepLatencies {
			line, err := sweepPoint(ibrun, rounds, latency, nodes)
			if err != nil {
				return fmt.Errorf("%v, %d nodes: %w", latency, nodes, err)
			}
			fmt.Printf("%d nodes: %s\n", nodes, line)
			table += line + "\n"
		}
		table += "\n\n"
	}
	return os.WriteFile(file, []byte(strings.TrimSpace(table)+"\n"), 0o644)
}

// sweepPoint measures one line of the table. The first round does not count: ibrun measures and stores the cost of a
// session in it.
func sweepPoint(ibrun string, rounds int, latency time.Duration, nodes int) (line string, err error) {
	var predicted, up []float64
	r, err := measure(rounds, group{stand: true, latency: latency}, size{nodes, 1}, func(st *stage) []*contestant {
		all := slices.DeleteFunc(st.contestants(ibrun), func(c *contestant) bool { return c.Name == openMPI })
		all[0].argv = slices.Insert(all[0].argv, 1, "--timing", "--json")
		all[0].read = func(said []byte) error {
			s, err := times(said)
			if err == nil {
				predicted, up = append(predicted, s.Predicted.LastUp), append(up, s.LastUp)
			}
			return err
		}
		return all
	})
	if err != nil {
		return "", err
	}
	theirs := r.find(hydra)
	if theirs == nil {
		return "", fmt.Errorf("%s is not installed", hydra)
	}
	return fmt.Sprintf("%v\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f", latency, figure.Median(predicted[1:]), figure.Median(up[1:]),
		r.find(ours).Median(), theirs.Median(), r.find(floorName).Median()), nil
}

// times parses the line that ibrun --timing --json prints to its standard error.
func times(said []byte) (s timing.Summary, err error) {
	at := bytes.Index(said, []byte(`{"nodes"`))
	if at < 0 {
		return s, fmt.Errorf("no times in the output: %s", said)
	}
	return s, json.NewDecoder(bytes.NewReader(said[at:])).Decode(&s)
}
