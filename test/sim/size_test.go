package sim

import (
	"flag"
	"os"
	"testing"
)

// sizes are how large the tests at scale are. Those of `make test` (go test -short) have a sample;
// `make sim` has all.
type sizes struct {
	agents      int // of the budget test
	clientNodes int // with 16 PMI clients each
	nodes       int // of the tests of a million ranks, 64 each
	whole       bool
}

var scale = sizes{agents: 65536, clientNodes: 4096, nodes: 16384, whole: true}

func TestMain(m *testing.M) {
	if flag.Parse(); testing.Short() {
		scale = sizes{agents: 4096, clientNodes: 64, nodes: 256}
	}
	os.Exit(m.Run())
}

// stride is how far it is from one number of a test to the next, of those around n.
func stride(n int) int {
	if scale.whole {
		return 1
	}
	return 1 + n/8
}
