package ibrun

import (
	"slices"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Failures returns the ranks that have failed so far, in the order in which this rank was told, and
// acknowledges them: Recv does not fail for them any more. A rank fails when it is killed, or ends
// with an exit code other than 0 before Finalize.
//
// Only a job that is started with --keep-going goes on when a rank fails. In such a job a Recv that
// finds no message returns a *PeerError with the cause ErrFailed, once for each failed rank. Send
// to a failed rank and RecvFrom it return a *PeerError each time. Collectives need all ranks, and
// fail with a *CollectiveError that names a failed rank. Finalize does not wait for a failed rank,
// and names it if messages did not reach it.
func (w *World) Failures() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.table.Acknowledge() // under the lock: a failure that is told of now is not in the list
	return slices.Clone(w.failed)
}

// failures takes the agent's word of ranks that have failed.
func (w *World) failures(m rankwire.Failures) {
	for s := range m.Ranks.All() {
		for slot := s.First; slot < min(s.End(), job.Slot(w.layout.Load().Ranks())); slot++ {
			w.log.Warn("a rank has failed", "rank", w.rank(slot))
			w.fail(slot)
		}
	}
}

func (w *World) fail(slot job.Slot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = append(w.failed, w.rank(slot))
	w.table.Failed(uint32(slot))
}
