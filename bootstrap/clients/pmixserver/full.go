//go:build !lean

package pmixserver

import "ibrun/internal/job"

// maxFull is how many ranks a job may have whose clients are told of each of them. Each of them
// takes about 150 bytes in each client.
const maxFull = job.MaxDescribed
