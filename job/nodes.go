package job

// Run is a stretch of nodes whose names differ only in a number and that
// carry the same number of ranks each. A name that is not part of a range is
// a run of one with Width 0 and the whole name in Prefix.
type Run struct {
	Prefix, Suffix string // the name around the number
	Width          uint8  // digits of the number, zero-padded; 0: the run has no number
	Lo             uint64 // number of the first node
	Count          uint32 // nodes, at least 1
	User           string // login name on these nodes, or empty
	HCA            string // "device" or "device:port" asked for in a host file, or empty
	Slots          uint32 // slots per node as written; 0: not written
	Ranks          uint32 // ranks on each node; 0 before placement
}

// Node is one node of a table.
type Node struct {
	Host, User, HCA string
	Slots, Ranks    uint32
	First           uint32 // first rank on the node
}

// Nodes is a table of nodes in rank order: node i+1 holds the ranks that
// follow node i's. It is kept as runs, so its size follows the number of
// distinct name patterns and not the number of nodes. The zero value is empty.
// Nodes is a value: no method changes it, and slices share nothing mutable.
type Nodes struct {
	runs  []Run
	base  uint32   // first rank of the first node
	nodes []uint32 // nodes before run i, with a closing total
	ranks []uint32 // ranks before run i, relative to base, with a closing total
}
