package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ibrun/test/bench/figure"
)

// autoBound is the upper limit of the time with --lazy=auto, divided by the shorter one of the times with --lazy and
// with --eager.
const autoBound = 1.2

// allTook matches the output of examples/alltoall. Its group matches the time from the first barrier to the last one,
// in the form of time.ParseDuration.
var allTook = regexp.MustCompile(`^\d+ ranks sent \d+ messages of \d+ bytes in (\S+)\n$`)

// Lazy compares the options --lazy, --eager and --lazy=auto of ibrun on a virtual cluster. It runs two programs, in
// rounds with one job for each option. The arguments are NODES, RANKS-PER-NODE, DENSE-ROUNDS, SPARSE-ROUNDS, and the
// paths of ibrun, of DENSE and of SPARSE. DENSE is examples/alltoall, in which each rank sends to one rank of each
// node. Lazy compares the time until all its messages have arrived. SPARSE is examples/stencil3d. Lazy compares the
// median time of its first messages. This time varies with the order in which nodes start, so SPARSE may need another
// number of rounds than DENSE. Lazy returns an error if --lazy=auto takes longer than autoBound allows.
func Lazy(args []string) error {
	var nodes, perNode, denseRounds, sparseRounds int
	var launcher, dense, sparse string
	err := figure.Parse(args, &nodes, &perNode, &denseRounds, &sparseRounds, &launcher, &dense, &sparse)
	if err != nil {
		return err
	}
	hosts, ppn := strings.Join(figure.Names(nodes), ","), strconv.Itoa(perNode)
	var missed error
	for _, p := range []struct {
		name   string
		rounds int
		argv   []string
		read   func(figure.Result) (float64, error)
	}{
		{"dense", denseRounds, []string{dense, "-every", ppn}, allTime},
		{"sparse", sparseRounds, []string{"--stats=json", sparse}, firstTime},
	} {
		way := func(choice string) *figure.Way {
			return &figure.Way{Name: choice, Do: func() (float64, error) {
				options := []string{"--hosts", hosts, "-ppn", ppn, "--timeout", "120", choice}
				r, err := figure.Run(patience, exec.Command(launcher, append(options, p.argv...)...))
				if err != nil {
					return 0, err
				}
				return p.read(r)
			}}
		}
		lazy, eager, auto := way("--lazy"), way("--eager"), way("--lazy=auto")
		if err := figure.Measure(0, p.rounds, lazy, eager, auto); err != nil {
			return err
		}
		title := fmt.Sprintf("%s on %dx%d", p.name, nodes, perNode)
		better := min(lazy.Median(), eager.Median())
		for _, w := range []*figure.Way{lazy, eager, auto} {
			fmt.Printf("%s: %-11s %8.2f ms   %.2f of the better one\n", title, w.Name, w.Median(), w.Median()/better)
		}
		b := figure.Bounds{To: os.Stdout}
		b.AtMost(title+": auto beside the better one", auto.Median()/better, autoBound)
		missed = errors.Join(missed, b.Err())
	}
	return missed
}

// allTime returns the time that examples/alltoall has printed to standard output, in milliseconds.
func allTime(r figure.Result) (float64, error) {
	m := allTook.FindSubmatch(r.Out)
	if m == nil {
		return 0, fmt.Errorf("unexpected output: %q", r.Out)
	}
	took, err := time.ParseDuration(string(m[1]))
	return figure.Milliseconds(took), err
}

// firstTime returns the median time of first messages from the output of --stats=json, in milliseconds.
func firstTime(r figure.Result) (float64, error) {
	for line := range bytes.Lines(r.Said) {
		var s struct {
			P50 float64 `json:"first_message_p50_us"` // microseconds
		}
		if json.Unmarshal(line, &s) == nil && s.P50 > 0 {
			return s.P50 / 1000, nil
		}
	}
	return 0, fmt.Errorf("no statistics: %q", r.Said)
}
