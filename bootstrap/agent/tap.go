package agent

import "sync"

// Tap shows what ranks print to those who attach to the job: the last tapKept bytes and all that
// comes. One who is too slow misses some of it; the job does not wait. The nil Tap shows nothing.
type Tap struct {
	mu    sync.Mutex
	kept  []printed
	size  int // bytes of kept
	calls map[chan struct{}]*tapped
}

// tapped is what has not been taken of one who has attached.
type tapped struct {
	queue []printed
	size  int
	lost  uint64
}

const (
	tapKept   = 64 << 10
	tapChunks = 4096
	tapQueued = 1 << 20 // bytes that wait for one who has attached
)

// add shows a chunk. The tap keeps the bytes, which do not change any more.
func (t *Tap) add(w printed) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept, t.size = append(t.kept, w), t.size+len(w.data)
	for len(t.kept) > 1 && (t.size > tapKept || len(t.kept) > tapChunks) {
		t.size -= len(t.kept[0].data)
		t.kept = t.kept[1:]
	}
	for wake, c := range t.calls {
		if c.size+len(w.data) > tapQueued {
			c.lost += uint64(len(w.data))
		} else {
			c.queue, c.size = append(c.queue, w), c.size+len(w.data)
		}
		poke(wake)
	}
}

// open attaches: what is kept can be taken at once. Wake has capacity 1.
func (t *Tap) open(wake chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls == nil {
		t.calls = map[chan struct{}]*tapped{}
	}
	t.calls[wake] = &tapped{queue: append([]printed(nil), t.kept...), size: t.size}
	wake <- struct{}{}
}

// take is what has come since the last take, and how many bytes were lost before it.
func (t *Tap) take(wake chan struct{}) (batch []printed, lost uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.calls[wake]
	batch, lost = c.queue, c.lost
	*c = tapped{}
	return batch, lost
}

func (t *Tap) close(wake chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.calls, wake)
}
