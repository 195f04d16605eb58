package lazy

import (
	"slices"
	"sync"
)

// bufferPool keeps the memory of long messages that the program has freed, for later messages. New memory costs as much
// as the copy out of the kernel, or more.
type bufferPool struct {
	mu    sync.Mutex
	free  [][]byte // in the order in which they were freed
	bytes int      // total capacity of the buffers in free
}

const (
	poolLeast = 4 << 10  // minimum capacity in bytes of a buffer that is kept
	poolBytes = 64 << 20 // maximum of bufferPool.bytes
	poolCount = 128      // maximum number of buffers
)

// put adds the memory of m to the pool. If the pool is full, put drops the buffers that were freed first.
func (p *bufferPool) put(m []byte) {
	if cap(m) < poolLeast || cap(m) > poolBytes {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	old := 0
	for p.bytes+cap(m) > poolBytes || len(p.free)-old >= poolCount {
		p.bytes -= cap(p.free[old])
		old++
	}
	p.free = append(slices.Delete(p.free, 0, old), m[:0])
	p.bytes += cap(m)
}

// get returns a buffer of size bytes from the pool. It returns nil if the pool has no buffer with a capacity from size
// to twice size.
func (p *bufferPool) get(size int) []byte {
	if size < poolLeast {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, m := range slices.Backward(p.free) { // the buffer that was freed last may be in the processor's cache
		if cap(m) >= size && cap(m) <= 2*size {
			p.free = slices.Delete(p.free, i, i+1)
			p.bytes -= cap(m)
			return m[:size]
		}
	}
	return nil
}
