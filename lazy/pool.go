package lazy

import (
	"slices"
	"sync"
)

// bufferPool keeps the memory of longer messages that the application has given back.
// Fresh memory costs as much as the copy out of the kernel, or more.
type bufferPool struct {
	mu    sync.Mutex
	free  [][]byte // the longest unused first
	bytes int
}

const (
	poolLeast = 4 << 10  // shorter messages are not worth the trouble
	poolBytes = 64 << 20 // kept at most
	poolCount = 128
)

// put takes memory back. What has not been used for longest makes room for it.
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

// get returns memory for size bytes, or nil if there is none that fits
// without wasting more than it uses.
func (p *bufferPool) get(size int) []byte {
	if size < poolLeast {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, m := range slices.Backward(p.free) { // what was used last is in the processor's cache
		if cap(m) >= size && cap(m) <= 2*size {
			p.free = slices.Delete(p.free, i, i+1)
			p.bytes -= cap(m)
			return m[:size]
		}
	}
	return nil
}
