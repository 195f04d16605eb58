package lazy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ibrun/internal/report"
	"ibrun/test/bench/figure"
	"ibrun/test/bench/hosts"
)

// choices are what all takes in turns. The last one chooses between the others.
var choices = []string{"--lazy", "--eager", "--lazy=auto"}

// autoBound is what --lazy=auto may take of the time of the better one.
const autoBound = 1.2

// allTook finds the time that examples/alltoall took from barrier to barrier.
var allTook = regexp.MustCompile(`^\d+ ranks sent \d+ messages of \d+ bytes in (\S+)\n$`)

// times are the milliseconds of a pattern, by choice; a value for each round.
type times map[string][]float64

// all measures two patterns on the nodes of a virtual cluster: size is nodes, ranks per node, and
// the rounds of dense and of sparse, which depends on how the nodes happened to start. Dense is
// examples/alltoall, of which each rank sends to one rank of each node. Sparse is
// examples/stencil3d, of which the median first message counts. It fails if auto misses its bound.
func all(size []string, launcher, dense, sparse string) error {
	var n [4]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(size[i]); err != nil || n[i] < 1 {
			return fmt.Errorf("invalid number of nodes, ranks per node or rounds: %q", size[i])
		}
	}
	nodes, perNode := n[0], n[1]
	var missed error
	for _, p := range []struct {
		name   string
		rounds int
		argv   []string
		read   func(stdout, stderr []byte) (float64, error)
	}{
		{"dense", n[2], []string{dense, "-every", strconv.Itoa(perNode)}, allTime},
		{"sparse", n[3], []string{"--stats=json", sparse}, firstTime},
	} {
		taken := times{}
		turn := func(choice string) func() error {
			return func() error {
				c := exec.Command(launcher, append([]string{"--hosts", strings.Join(hosts.Names(nodes), ","), "-ppn",
					strconv.Itoa(perNode), "--timeout", "120", choice}, p.argv...)...)
				var stderr bytes.Buffer
				c.Stderr = &stderr
				out, err := c.Output()
				if err != nil {
					return fmt.Errorf("%s %s: %w: %s", launcher, choice, err, stderr.Bytes())
				}
				took, err := p.read(out, stderr.Bytes())
				taken[choice] = append(taken[choice], took)
				return err
			}
		}
		var turns []func() error
		for _, choice := range choices {
			turns = append(turns, turn(choice))
		}
		if err := figure.Turns(p.rounds, turns...); err != nil {
			return err
		}
		missed = errors.Join(missed, taken.print(os.Stdout, fmt.Sprintf("%s on %dx%d", p.name, nodes, perNode)))
	}
	return missed
}

// allTime reads the time that the program printed, in milliseconds.
func allTime(stdout, _ []byte) (float64, error) {
	m := allTook.FindSubmatch(stdout)
	if m == nil {
		return 0, fmt.Errorf("unexpected output: %q", stdout)
	}
	took, err := time.ParseDuration(string(m[1]))
	return figure.Milliseconds(took), err
}

// firstTime reads the median time of first messages from the statistics, in milliseconds.
func firstTime(_, stderr []byte) (float64, error) {
	for line := range bytes.Lines(stderr) {
		var s report.Statistics
		if json.Unmarshal(line, &s) == nil && s.P50 > 0 {
			return s.P50 / 1000, nil
		}
	}
	return 0, fmt.Errorf("no statistics: %q", stderr)
}

// print writes the medians, each also as a ratio to the better one of lazy and eager, and holds
// auto against its bound.
func (t times) print(to io.Writer, title string) error {
	better := min(figure.Median(t["--lazy"]), figure.Median(t["--eager"]))
	for _, choice := range choices {
		median := figure.Median(t[choice])
		fmt.Fprintf(to, "%s: %-11s %8.2f ms   %.2f of the better one\n", title, choice, median, median/better)
	}
	b := figure.Bounds{To: to}
	b.AtMost(title+": auto beside the better one", figure.Median(t["--lazy=auto"])/better, autoBound)
	return b.Err()
}
