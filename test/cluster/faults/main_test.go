//go:build cluster || soak

// Package faults breaks jobs of the real binary on virtual clusters with real sshd, and compares what follows with the
// promises of docs/faults.md and docs/cli.md. The catalogue has the known faults. The campaigns, which make soak runs,
// draw faults and malformed inputs from a seed.
package faults

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ibrun/test/product"
	"ibrun/test/vcluster/cluster"
)

var (
	seed  = flag.Uint64("seed", 1, "seed from which all rounds and inputs are drawn")
	match = flag.String("case", "", "only cases of the catalogue with this text in their names")
)

// patience is the timeout of each wait in these tests. Only a wait that would never end reaches it. The longest correct
// wait takes 70 s, after which a reaper kills a stopped agent.
const patience = 2 * time.Minute

// program is the path of ibrun on the front. The nodes see the same path if the configuration of the cluster is that of
// configWithProgram. Otherwise ibrun has to send them its binary.
var program string

// configWithProgram returns the configuration of a cluster whose nodes see the path program, so that ibrun does not
// send them its binary.
func configWithProgram(nodes int) cluster.Config {
	return cluster.Config{Nodes: nodes, Share: []string{filepath.Dir(program)}}
}

func TestMain(m *testing.M) { os.Exit(product.Run(m, &program)) }

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// onSites hands each item to one of several clusters, and calls play there. A cluster has one job at a time.
func onSites[T any](t *testing.T, clusters int, config cluster.Config, items []T, play func(*site, T)) {
	t.Helper()
	queue := make(chan T, len(items))
	for _, item := range items {
		queue <- item
	}
	close(queue)
	var work sync.WaitGroup
	for range min(clusters, len(items)) {
		s := newSite(t, config)
		work.Go(func() {
			for item := range queue {
				play(s, item)
			}
		})
	}
	work.Wait()
}

// report marks the test as failed if wrong has any texts. It then prints them with what was tested and the output of
// ibrun.
func report(t *testing.T, what fmt.Stringer, wrong []string, output string) {
	t.Helper()
	if len(wrong) > 0 {
		t.Errorf("%s\nwrong: %s\noutput:\n%s", what, strings.Join(wrong, "\n       "), output)
	}
}
