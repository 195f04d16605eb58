package sim

// sizes are the sizes of the tests, and how many seeds the random ones run.
type sizes struct {
	agents      int // of the budget test
	clientNodes int // with 16 PMI clients each
	nodes       int // of the tests of a million ranks, 64 each
	part        int // Other tests run one case in part.

	faults, repairs, relaunches, daemons int
}

// scale holds the sizes that tests use. These are reduced sizes. With the build tag soak, an init function replaces
// them by the full sizes.
var scale = sizes{agents: 512, clientNodes: 16, nodes: 128, part: 16, faults: 8, repairs: 1, relaunches: 1, daemons: 1}

func (s sizes) whole() bool { return s.part == 1 }

// sample returns how many of n cases are run.
func (s sizes) sample(n int) int { return (n + s.part - 1) / s.part }

// stride returns the distance between two numbers of a test that are close to n.
func (s sizes) stride(n int) int { return 1 + n*(s.part-1)/32 }
