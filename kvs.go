package ibrun

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"ibrun/bootstrap/wire"
	"ibrun/fabric"
	"ibrun/lazy"
)

// Put puts a value on the key-value store (KVS) under this rank's name. It is kept by
// this node's agent; nothing is sent to other nodes until they ask. A key is
// put once: the same value again does no harm, another is ErrPut. Keys have 1
// to 1,024 bytes, the first of which is not zero, values up to 1 MiB.
func (w *World) Put(ctx context.Context, key string, value []byte) error {
	if err := w.usable(); err != nil {
		return err
	}
	if err := sizes(key, value); err != nil {
		return fmt.Errorf("ibrun: put: %w", err)
	}
	if w.control == nil {
		return w.putAlone(key, value)
	}
	done, err := w.put(key, value)
	if err != nil {
		return err
	}
	select {
	case again := <-done:
		if again {
			return fmt.Errorf("ibrun: put %q: %w", key, ErrPut)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.over:
		return w.gone()
	}
}

// put sends a Put, whose answer is for done.
func (w *World) put(key string, value []byte) (done chan bool, err error) {
	done = make(chan bool, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.puts = append(w.puts, done)
	return done, w.control.Send(wire.Put{Key: w.mark + key, Value: value})
}

// putSecondary puts this rank's second address where those look for it who need it.
func (w *World) putSecondary(tuple fabric.Tuple) {
	_, _ = w.put(lazy.SecondaryKey, tuple.Append(nil)) // a lost agent ends the world
}

// sizes says what is wrong with those of a key and a value. The agent would
// take a question without a key for one about an address, and would not listen
// any more to a rank with longer ones.
func sizes(key string, value []byte) error {
	if strings.HasPrefix(key, "\x00") {
		return fmt.Errorf("key %q: those that begin with a zero byte are ibrun's own", key)
	}
	if key == "" || len(key) > wire.MaxKey || len(value) > wire.MaxValue {
		return fmt.Errorf("key of %d bytes, value of %d: 1 to %d and 0 to %d are possible", len(key), len(value), wire.MaxKey, wire.MaxValue)
	}
	return nil
}

func (w *World) putDone(m wire.PutDone) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.puts) > 0 {
		w.puts[0] <- m.Again
		w.puts = w.puts[1:]
	}
}

// Get returns what a rank has put under a key. It waits until the rank has put
// it; a rank that ends without is a *PeerError.
func (w *World) Get(ctx context.Context, rank int, key string) ([]byte, error) {
	if err := w.usable(); err != nil {
		return nil, err
	}
	seat, err := w.number(rank)
	if err != nil {
		return nil, fmt.Errorf("ibrun: get: %w", err)
	}
	if err := sizes(key, nil); err != nil {
		return nil, fmt.Errorf("ibrun: get: %w", err)
	}
	answer := make(chan wire.Answer, 1)
	k := getKey{seat, key}
	w.mu.Lock()
	w.gets[k] = append(w.gets[k], answer)
	if w.control == nil {
		w.getAlone(k)
	} else if len(w.gets[k]) == 1 {
		err = resolver{w.control, w.mark}.Ask(wire.Ask{Rank: k.rank, Key: key, Least: w.welcome.Epoch})
	}
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		if m.What != wire.Found {
			return nil, &PeerError{Rank: uint32(rank), Cause: fmt.Errorf("it never put %q: %v", key, m.What)}
		}
		return m.Value, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.over:
		return nil, w.gone()
	}
}

func (w *World) got(m wire.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := getKey{m.Rank, m.Key}
	for _, answer := range w.gets[k] {
		answer <- m
	}
	delete(w.gets, k)
}

// putAlone is Put in a job of one rank.
func (w *World) putAlone(key string, value []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, ok := w.kvs[key]; ok {
		if !bytes.Equal(old, value) {
			return fmt.Errorf("ibrun: put %q: %w", key, ErrPut)
		}
		return nil
	}
	if w.kvs == nil {
		w.kvs = map[string][]byte{}
	}
	w.kvs[key] = bytes.Clone(value)
	w.getAlone(getKey{0, key})
	return nil
}

// getAlone serves those who wait for a key in a job of one rank; the caller
// holds the lock.
func (w *World) getAlone(k getKey) {
	value, ok := w.kvs[k.key]
	if !ok {
		return
	}
	for _, answer := range w.gets[k] {
		answer <- wire.Answer{Value: value}
	}
	delete(w.gets, k)
}
