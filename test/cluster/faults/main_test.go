//go:build cluster || soak

// Package faults breaks jobs of the real binary on virtual clusters with real sshd, and holds what follows
// against the promises of docs/faults.md and docs/cli.md. The catalogue has the faults that are known. The
// campaigns, which make soak runs, draw faults and malformed inputs from a seed.
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
	seed  = flag.Uint64("seed", 1, "draws all rounds and inputs")
	match = flag.String("case", "", "only cases of the catalogue with this text in their names")
)

// patience only ends a test that hangs. It is longer than the 70 s after which a stopped agent is killed.
const patience = 2 * time.Minute

// program is ibrun. Nodes see it where seeing has made them, and have to be sent it elsewhere.
var program string

// seeing describes a cluster whose nodes see program, so that they need not be sent it.
func seeing(nodes int) cluster.Config {
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

// report fails the test with all that is wrong.
func report(t *testing.T, what fmt.Stringer, wrong []string, output string) {
	t.Helper()
	if len(wrong) > 0 {
		t.Errorf("%s\nwrong: %s\noutput:\n%s", what, strings.Join(wrong, "\n       "), output)
	}
}
