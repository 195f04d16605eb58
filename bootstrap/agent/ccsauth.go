package agent

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"io"
	"sync"

	"ibrun/bootstrap/ccs"
)

// ccsKeys lets those clients of the port for CCS call that know a key, if there are keys.
type ccsKeys struct {
	known ccs.Keys

	mu      sync.Mutex
	clients ccs.Clients
}

// admit reads the head of a request. Answer goes before its reply. Done: it was no request, but a
// challenge that has been answered.
func (k *ccsKeys) admit(c io.ReadWriter) (head [ccs.RequestSize]byte, answer []byte, done bool, err error) {
	var first [4]byte
	if _, err := io.ReadFull(c, first[:]); err != nil {
		return head, nil, true, nil
	}
	kind, key, err := k.known.Begins(first)
	switch {
	case err != nil:
		return head, nil, false, err
	case kind == ccs.NewClient:
		return head, nil, true, k.challenge(c, key)
	case kind == ccs.Unsigned:
		copy(head[:], first[:])
		_, err := io.ReadFull(c, head[len(first):])
		return head, nil, err != nil, nil
	}
	var in struct {
		Client, Salt uint32
		Signature    ccs.Signature
		Head         [ccs.RequestSize]byte
	}
	if err := binary.Read(c, binary.BigEndian, &in); err != nil {
		return head, nil, true, nil
	}
	k.mu.Lock()
	err = k.clients.Check(key, in.Client, in.Head[:], in.Signature)
	k.mu.Unlock()
	s := key.Sign(in.Salt, nil)
	return in.Head, s[:], false, err
}

// challenge makes a client of who knows the key, and shows it that this end does.
func (k *ccsKeys) challenge(c io.ReadWriter, key ccs.Key) error {
	var theirs uint32
	if err := binary.Read(c, binary.BigEndian, &theirs); err != nil {
		return nil // it has gone
	}
	random := make([]byte, 8) // rand.Read never fails
	_, _ = rand.Read(random)
	ours, salt := binary.BigEndian.Uint32(random), binary.BigEndian.Uint32(random[4:])
	if _, err := c.Write(random[:4]); err != nil {
		return nil
	}
	var proof ccs.Signature
	if _, err := io.ReadFull(c, proof[:]); err != nil {
		return nil
	}
	if want := key.Sign(ours, nil); !hmac.Equal(want[:], proof[:]) {
		return ccs.ErrSignature
	}
	k.mu.Lock()
	client := k.clients.Add(salt)
	k.mu.Unlock()
	s := key.Sign(theirs, nil)
	out := binary.BigEndian.AppendUint32(append([]byte(nil), s[:]...), client)
	_, _ = c.Write(binary.BigEndian.AppendUint32(out, salt)) // it may have gone
	return nil
}
