package ibrun

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/fabric"
	"ibrun/internal/job"
)

// Put puts a value on the key-value store (KVS) under this rank's name. This node's agent keeps it;
// nothing is sent to other nodes until they ask. A key is put once: the same value again does no
// harm, another is ErrKeyExists. Keys have 1 to 1,024 bytes, the first of which is not zero; values
// have up to 1 MiB. If ctx ends first, Put returns its error, and the value may be there or not.
func (w *World) Put(ctx context.Context, key string, value []byte) error {
	if err := w.usable(); err != nil {
		return err
	}
	if err := checkPut(key, value); err != nil {
		return fmt.Errorf("ibrun: Put: %w", err)
	}
	if w.control == nil {
		return w.putAlone(key, value)
	}
	done, err := w.put(key, value)
	if err != nil {
		return err
	}
	again, err := await(ctx, w, done)
	if again {
		return fmt.Errorf("ibrun: Put %q: %w", key, ErrKeyExists)
	}
	return err
}

// put sends a Put, whose answer is for done.
func (w *World) put(key string, value []byte) (done chan bool, err error) {
	done = make(chan bool, 1)
	w.putting.Lock()
	defer w.putting.Unlock()
	w.puts = append(w.puts, done)
	return done, w.send(rankwire.Put{Key: w.mark + key, Value: value})
}

// secondaryKey is the key under which a rank puts its second address into the key-value store. It begins with a zero
// byte, which Put refuses in keys of users. The ranks of a job may be built from different versions, so the key must
// never change.
const secondaryKey = "\x00beside"

// putSecondary puts this rank's second address where those look for it who need it.
func (w *World) putSecondary(tuple fabric.Tuple) {
	_, _ = w.put(secondaryKey, tuple.Append(nil)) // a lost agent ends the world
}

// checkPut says what is wrong with a key and a value. The agent would take a question without a key
// for one about an address, and would end its talk with a rank that sends longer ones.
func checkPut(key string, value []byte) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidKey)
	case strings.HasPrefix(key, "\x00"):
		return fmt.Errorf("%w %q: those that begin with a zero byte are reserved", ErrInvalidKey, key)
	case len(key) > rankwire.MaxKey:
		return fmt.Errorf("key of %d bytes, at most %d: %w", len(key), rankwire.MaxKey, ErrTooLong)
	case len(value) > rankwire.MaxValue:
		return fmt.Errorf("value of %d bytes, at most %d: %w", len(value), rankwire.MaxValue, ErrTooLong)
	}
	return nil
}

func (w *World) putDone(m rankwire.PutDone) {
	w.putting.Lock()
	defer w.putting.Unlock()
	if len(w.puts) > 0 {
		w.puts[0] <- m.Again
		w.puts = w.puts[1:]
	}
}

// Get returns what a rank has put under a key. It waits until the rank has put it. If the rank ends
// without, Get returns a *PeerError with the cause ErrNotPut. If ctx ends first, Get returns its
// error, and may be called again.
func (w *World) Get(ctx context.Context, rank int, key string) ([]byte, error) {
	if err := w.usable(); err != nil {
		return nil, err
	}
	slot, err := w.slot("Get", rank)
	if err != nil {
		return nil, err
	}
	if err := checkPut(key, nil); err != nil {
		return nil, fmt.Errorf("ibrun: Get: %w", err)
	}
	answer := make(chan rankwire.Answer, 1)
	k := getKey{slot, key}
	w.mu.Lock()
	w.gets[k] = append(w.gets[k], answer)
	if w.control == nil {
		w.getAlone(k)
	} else if len(w.gets[k]) == 1 {
		err = w.send(rankwire.Ask{Rank: k.slot, Key: w.mark + key, Least: job.ProgramOf(w.welcome.Epoch)})
	}
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	m, err := await(ctx, w, answer)
	if err == nil && m.What != rankwire.Found {
		err = &PeerError{Rank: rank, Err: fmt.Errorf("%w %q: %v", ErrNotPut, key, m.What)}
	}
	return m.Value, err
}

func (w *World) got(m rankwire.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serve(getKey{m.Rank, m.Key}, m)
}

// serve passes the answer m to all calls of Get that wait for k. The caller holds w.mu.
func (w *World) serve(k getKey, m rankwire.Answer) {
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
			return fmt.Errorf("ibrun: Put %q: %w", key, ErrKeyExists)
		}
		return nil
	}
	w.kvs[key] = bytes.Clone(value)
	w.getAlone(getKey{0, key})
	return nil
}

// getAlone answers the calls of Get that wait for k in a job of one rank, if k has been put. The caller holds w.mu.
func (w *World) getAlone(k getKey) {
	if value, ok := w.kvs[k.key]; ok {
		w.serve(k, rankwire.Answer{Value: value})
	}
}
