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

// patience limits each wait. Only a test that hangs should reach it. It is longer than the 70 s after which a stopped
// agent is killed.
const patience = 2 * time.Minute

// program is the path of ibrun. Nodes see that path only in clusters with the configuration that seeing returns. To
// other nodes ibrun has to send the binary.
var program string

// seeing returns the configuration of a cluster whose nodes see program, so that ibrun need not send the binary.
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

// report fails the test if wrong is not empty.
func report(t *testing.T, what fmt.Stringer, wrong []string, output string) {
	t.Helper()
	if len(wrong) > 0 {
		t.Errorf("%s\nwrong: %s\noutput:\n%s", what, strings.Join(wrong, "\n       "), output)
	}
}
