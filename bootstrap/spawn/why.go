package spawn

import (
	"bytes"
	"debug/elf"
	"fmt"
	"sync"
	"syscall"

	"ibrun/internal/proc"
	"ibrun/topo"
)

// memory is how often the kernel has killed for lack of memory, as far as it counts
// that for this node's ranks.
type memory struct {
	mu    sync.Mutex
	kills uint64 // that are known, or the reason of a rank's end
}

// watch takes what was counted before the ranks could need much.
func (m *memory) watch() {
	_, kills, _ := topo.MemoryKills(proc.Here())
	m.mu.Lock()
	m.kills = kills
	m.mu.Unlock()
}

// claim says that the kernel was out of memory, if it has killed once more than is
// explained; else "". The kernel counts before it kills.
func (m *memory) claim() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	where, kills, ok := topo.MemoryKills(proc.Here())
	if !ok || kills <= m.kills {
		return ""
	}
	m.kills++
	return "the kernel was out of memory (" + where + ")"
}

// why is what is known of a rank's end beyond its status; or "".
func (s *Set) why(r *rank, status syscall.WaitStatus) string {
	if !status.Signaled() {
		return ""
	}
	switch status.Signal() {
	case syscall.SIGKILL:
		return s.memory.claim()
	case syscall.SIGSEGV, syscall.SIGBUS:
		head, info, err := beginning(r.path, mostHead)
		if err == nil && bytes.HasPrefix(head, []byte(elf.ELFMAG)) && info.Size() < requiredSize(r.path) {
			return fmt.Sprintf("%s %s", r.path, wrong(r.path, head, info.Size(), nil))
		}
	}
	return ""
}
