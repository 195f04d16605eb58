package job

// LookupBytes is how many bytes of a table cost an edge as much as one look-up. A look-up is some
// four frames and as many changes between processes, about 80 us of processor time; that is what
// 8 KiB take at 1 Gbit/s (docs/dev/decisions/0031-measured-choices.md).
const LookupBytes = 8 << 10

// Enough reports whether so many look-ups have cost what all would cost together, which are so many
// bytes. A node that then fetches all has paid at most twice of what the better choice costs. If it
// needs all of them, it has paid little more than that: one look-up for each 8 KiB.
func Enough(lookups, bytes int) bool { return lookups*LookupBytes >= bytes }

// TableBytes estimates the addresses of a job as its agents send them: 24 bytes for a node, with
// the address that its ranks share, and 3 for a rank.
func TableBytes(nodes, ranks uint32) int { return 24*int(nodes) + 3*int(ranks) }
