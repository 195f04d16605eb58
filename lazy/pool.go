package lazy

import "sync"

// bufferPool keeps the memory of long messages that the application has given back.
// Fresh memory costs as much as the copy out of the kernel, or more.
type bufferPool struct {
	mu    sync.Mutex
	free  [][]byte
	bytes int
}

const (
	poolLeast = 32 << 10 // shorter messages are not worth the trouble
	poolBytes = 64 << 20 // kept at most
	poolCount = 32
)

// put takes memory back.
func (p *bufferPool) put(m []byte) {
	if cap(m) < poolLeast {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < poolCount && p.bytes+cap(m) <= poolBytes {
		p.free = append(p.free, m[:0])
		p.bytes += cap(m)
	}
}

// get returns memory for size bytes, or nil if there is none that fits
// without wasting more than it uses.
func (p *bufferPool) get(size int) []byte {
	if size < poolLeast {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, m := range p.free {
		if cap(m) >= size && cap(m) <= 2*size {
			last := len(p.free) - 1
			p.free[i], p.free[last] = p.free[last], nil
			p.free = p.free[:last]
			p.bytes -= cap(m)
			return m[:size]
		}
	}
	return nil
}
