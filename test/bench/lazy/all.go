package lazy

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ibrun/test/bench/figure"
	"ibrun/test/bench/hosts"
)

// choices are what all takes in turns. The last one chooses between the others.
var choices = []string{"--lazy", "--eager", "--lazy=auto"}

// autoBound is what --lazy=auto may take of the time of the better one.
const autoBound = 1.3

// allTook finds the time that examples/alltoall took from barrier to barrier.
var allTook = regexp.MustCompile(`^\d+ ranks sent \d+ messages of \d+ bytes in (\S+)\n$`)

// times are the milliseconds of all-to-alls, by choice; a value for each round.
type times map[string][]float64

// all measures all-to-all on the nodes of a virtual cluster: size is nodes, ranks per node and
// rounds, and program is examples/alltoall. It fails if auto misses its bound.
func all(size []string, launcher, program string) error {
	var n [3]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(size[i]); err != nil || n[i] < 1 {
			return fmt.Errorf("invalid number of nodes, ranks per node or rounds: %q", size[i])
		}
	}
	nodes, perNode, rounds := n[0], n[1], n[2]
	taken := times{}
	turn := func(choice string) func() error {
		return func() error {
			c := exec.Command(launcher, "--hosts", strings.Join(hosts.Names(nodes), ","), "-ppn", strconv.Itoa(perNode),
				"--timeout", "120", choice, program)
			c.Stderr = os.Stderr
			out, err := c.Output()
			if err != nil {
				return fmt.Errorf("%s %s: %w", launcher, choice, err)
			}
			took, err := allTime(string(out))
			taken[choice] = append(taken[choice], took)
			return err
		}
	}
	var turns []func() error
	for _, choice := range choices {
		turns = append(turns, turn(choice))
	}
	if err := figure.Turns(rounds, turns...); err != nil {
		return err
	}
	return taken.print(os.Stdout, fmt.Sprintf("all-to-all on %dx%d", nodes, perNode))
}

// allTime reads the time that the program printed, in milliseconds.
func allTime(out string) (float64, error) {
	m := allTook.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("unexpected output: %q", out)
	}
	took, err := time.ParseDuration(m[1])
	return figure.Milliseconds(took), err
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
