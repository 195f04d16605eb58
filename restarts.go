package ibrun

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Restarted returns how often this rank was restarted: 0 at first. It has the value of
// IBRUN_RESTART in the rank's environment.
func (w *World) Restarted() int { return int(job.StartOf(w.welcome.Epoch)) }

// Restarts returns the ranks that were restarted since this one has joined the job, in the order in
// which it was told, and acknowledges them: Recv does not fail for them any more.
//
// Only a job that is started with --on-failure restart restarts ranks. In such a job a Recv or
// RecvFrom that finds no message returns a *RestartError, once for each restart. So does a Send or
// Flush that finds that messages to the old start are lost, in place of Recv. What the old start
// has sent can be received until then, and not afterwards. A collective that the old start had not
// joined fails for all ranks with the cause ErrRestarted; the new start joins the next one that is
// called. Values that the old start has put are gone: Get waits for those of the new start.
func (w *World) Restarts() []RestartError {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.table.Restarts()
	return slices.Clone(w.restarted)
}

// Rollback asks that all ranks end and start again, from a checkpoint as they see fit: each gets
// SIGTERM, and SIGKILL after the job's grace (--kill-grace). The text says why, and goes to the
// user of ibrun; it is cut after 1,000 bytes. Each rollback counts as one restart: if there may be
// no more (--max-restarts), the job ends with exit code 1.
//
// Rollback does not return where it succeeds, since this process ends with the others. It returns
// an error with ErrNoRestart if the job is not one that restarts ranks, an AgentError if this
// node's agent is lost, and ErrFinalized after Finalize.
func (w *World) Rollback(text string) error {
	w.mu.Lock()
	finalized := w.finalized
	w.mu.Unlock()
	switch {
	case finalized:
		return ErrFinalized
	case w.control == nil || !w.welcome.Restarts:
		return fmt.Errorf("ibrun: Rollback: %w", ErrNoRestart)
	}
	_ = w.control.Send(rankwire.Rollback{Text: text[:min(len(text), abortText)]})
	<-w.over // the agent ends this process; the reader waits with us
	return w.agentError()
}

// restarts takes the agent's word of ranks that were restarted.
func (w *World) restarts(m rankwire.Restarted) {
	known := m.Op == 0
	w.mu.Lock()
	defer w.mu.Unlock()
	if !known {
		w.op, w.floor = max(w.op, m.Op), max(w.floor, m.Op)
	}
	for slot := m.First; slot < min(m.First+job.Slot(m.Count), job.Slot(w.layout.Load().Ranks())); slot++ {
		w.table.Restarted(uint32(slot), m.Epoch, known)
		if !known {
			w.restarted = append(w.restarted, RestartError{Rank: w.rank(slot), Restarts: int(job.StartOf(m.Epoch))})
		}
	}
}
