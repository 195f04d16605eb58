package ccs

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A client may have to prove that it knows a key: a challenge of SHA-1, whose marker stands where
// other requests have their length. Source: src/conv-ccs/ccs-auth.C and ccs-server.C of Charm++.
//
//	0x80 0 1 LEVEL s1     ->          a new client; s1 and all numbers have 4 bytes
//	                      <- s2
//	sign(s2)              ->
//	                      <- sign(s1) client salt
//
//	0x80 0 0 LEVEL client s3 sign(salt, head) head data    ->      a request of that client
//	                                                       <- sign(s3) length data
//
// Each request adds one to the client's salt, so none can be repeated.

// SignatureSize is the bytes of a signature.
const SignatureSize = sha1.Size

// Signature proves that its author knows a key.
type Signature = [SignatureSize]byte

// Key is a secret of clients and server.
type Key [16]byte

// Keys are those of levels 0 to 254; of level 0: no request comes without a signature.
type Keys map[uint8]Key

// signedHead is how much of a request's head is signed.
const signedHead = 16

// Sign makes the signature of a number, and of the beginning of a request's head, or nil.
func (k Key) Sign(salt uint32, head []byte) Signature {
	message := make([]byte, 52)
	copy(message, k[:])
	binary.BigEndian.PutUint32(message[len(k):], salt)
	copy(message[len(k)+4:], head[:min(len(head), signedHead)])
	return sha1.Sum(message)
}

// ParseKeys reads lines of a level and a key. A key is up to 16 pairs of digits, each a decimal
// number, as clients read them: the rest of a key, from the first pair on that has no digit in
// front, is zero. Half a pair at the end is an error: clients of Charm++ read on behind it, in
// whatever their memory has there, and their signatures are right by luck only.
func ParseKeys(text string) (Keys, error) {
	keys := Keys{}
	for i, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		level, err := strconv.ParseUint(words[0], 10, 8)
		if err != nil || level == 255 || len(words) != 2 {
			return nil, fmt.Errorf("line %d: a level from 0 to 254 and a key are wanted", i+1)
		}
		key, ok := parseKey(words[1])
		if !ok {
			return nil, fmt.Errorf("line %d: a key begins with a digit from 0 to 9", i+1)
		}
		if n := len(words[1]); n%2 == 1 && n < 2*len(key) {
			return nil, fmt.Errorf("line %d: a key has an even number of digits; clients of Charm++ read another one "+
				"each time; hint: add a 0", i+1)
		}
		keys[uint8(level)] = key
	}
	if len(keys) == 0 {
		return nil, errors.New("it has no key")
	}
	return keys, nil
}

func parseKey(text string) (k Key, ok bool) {
	digit := func(i int) (byte, bool) {
		if i >= len(text) {
			return 0, false
		}
		return text[i] - '0', text[i] >= '0' && text[i] <= '9'
	}
	for i := range k {
		high, is := digit(2 * i)
		if !is {
			break
		}
		ok = true
		if low, is := digit(2*i + 1); is {
			k[i] = 10*high + low
		} else {
			k[i] = high
		}
	}
	return k, ok
}

// AuthKind is what begins with the first four bytes of a connection.
type AuthKind uint8

const (
	Unsigned   AuthKind = iota // a request without a signature: the bytes are its length
	SignedCall                 // a signed request
	NewClient                  // a challenge
)

// Errors of challenges.
var (
	ErrUnsigned  = errors.New("it has no signature, and --ccs-auth wants one")
	ErrNoKey     = errors.New("there is no key of its level")
	ErrProtocol  = errors.New("it speaks another protocol")
	ErrSignature = errors.New("its signature is wrong")
	ErrNoClient  = errors.New("it is of no client that was challenged")
)

// Begins says what begins with the first bytes of a connection, and the key that it needs.
func (keys Keys) Begins(first [4]byte) (kind AuthKind, key Key, err error) {
	if first[0] < 0x20 {
		if _, wanted := keys[0]; wanted {
			return Unsigned, key, ErrUnsigned
		}
		return Unsigned, key, nil
	}
	if first[0] != 0x80 || first[1] != 0 || first[2] > 1 {
		return Unsigned, key, ErrProtocol
	}
	key, ok := keys[first[3]]
	if !ok {
		return Unsigned, key, ErrNoKey
	}
	return SignedCall + AuthKind(first[2]), key, nil
}

// mostClients is how many clients a server remembers: the oldest is forgotten first.
const mostClients = 1024

// Clients are those that have been challenged. The zero value has none.
type Clients struct {
	next  uint32
	salts map[uint32]uint32
}

// Add makes a client that has a salt.
func (c *Clients) Add(salt uint32) (client uint32) {
	if c.salts == nil {
		c.salts = map[uint32]uint32{}
	}
	client = c.next
	c.next++
	c.salts[client] = salt
	delete(c.salts, client-mostClients)
	return client
}

// Check holds the signature of a request against its head, and moves the client's salt on if it is
// right.
func (c *Clients) Check(key Key, client uint32, head []byte, s Signature) error {
	salt, ok := c.salts[client]
	if !ok {
		return ErrNoClient
	}
	want := key.Sign(salt, head)
	if !hmac.Equal(want[:], s[:]) {
		return ErrSignature
	}
	c.salts[client]++
	return nil
}
