package frametest

import (
	"slices"

	"ibrun/internal/job"
)

// Layout shows what a layout has in it.
func Layout(l job.Layout) any {
	return struct {
		Plane  uint32
		Shares []job.Share
		Order  []job.Stretch
	}{l.Plane(), slices.Collect(l.Shares()), l.Order()}
}

// ManyShares is a layout of so many nodes, or as many as there may be, of one rank and of two, in
// turn.
func ManyShares(count int) job.Layout {
	shares := make([]job.Share, min(count, job.MaxNodes))
	for i := range shares {
		shares[i] = job.Share{Nodes: 1, Ranks: uint32(1 + i%2)}
	}
	return job.NewLayout(shares)
}
