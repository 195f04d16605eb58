package launch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"ibrun/bootstrap/tree"
	"ibrun/test/bench/figure"
)

// sweepLatencies are added to the start of each session. Sweep measures each of them with each number of nodes.
var (
	sweepLatencies = []time.Duration{0, 50 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}
	sweepNodes     = []int{16, 64, 256}
)

// Sweep measures launches of one rank on each node, and writes median times in milliseconds to the table FILE. FILE
// has a block of lines for each number of nodes, and test/bench/plot/sweep.gp plots it.
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

// sweepPoint measures one combination of a latency and a number of nodes, and returns its line of the table. The
// first round does not count: in it ibrun measures the cost of a session, and stores the cost for the later rounds.
func sweepPoint(ibrun string, rounds int, latency time.Duration, nodes int) (line string, err error) {
	var predicted, up []float64
	r, err := measure(rounds, group{stand: true, latency: latency}, size{nodes, 1}, func(st *stage) []*contestant {
		all := slices.DeleteFunc(st.contestants(ibrun), func(c *contestant) bool { return c.Name == openMPI })
		all[0].argv = slices.Insert(all[0].argv, 1, "--timing", "--json")
		all[0].read = func(said []byte) error {
			s, err := parseTiming(said)
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

// parseTiming parses the line that ibrun --timing --json prints to its standard error.
func parseTiming(said []byte) (s tree.Summary, err error) {
	at := bytes.Index(said, []byte(`{"nodes"`))
	if at < 0 {
		return s, fmt.Errorf("no times in the output: %s", said)
	}
	return s, json.NewDecoder(bytes.NewReader(said[at:])).Decode(&s)
}
