package agent

import "sync"

// replies passes replies from the core to the goroutines that wait for them. A key identifies each question. The zero
// value is ready to use.
type replies[K comparable, T any] struct {
	mu    sync.Mutex
	waits map[K]chan T
}

// maxReplies is the largest number of replies to one question: a change of the job's size has one when it begins, and
// one when it is over.
const maxReplies = 2

// await registers a question and returns the channel of its replies. Call forget when no reply is awaited any more.
func (r *replies[K, T]) await(key K) (got <-chan T, forget func()) {
	wait := make(chan T, maxReplies) // pass drops a reply that does not fit; never closed
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waits == nil {
		r.waits = map[K]chan T{}
	}
	r.waits[key] = wait
	return wait, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waits, key)
	}
}

// pass passes on a reply. It drops the reply if no goroutine waits for it.
func (r *replies[K, T]) pass(key K, reply T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case r.waits[key] <- reply: // never ready if the key is unknown and the channel is nil
	default:
	}
}
