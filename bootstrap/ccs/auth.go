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

// A server can require that a client proves that it knows a key. Client and server each sign a number that the other
// one has chosen, with SHA-1. The client's messages begin with the byte 0x80. An unsigned request has the first byte of
// its length instead. The table shows the client's messages on the left and those of the server on the right.
// Source: src/conv-ccs/ccs-auth.C and ccs-server.C of Charm++.
//
//	0x80 0 1 LEVEL s1     ->          a new client; s1, s2, s3, client and salt have 4 bytes each
//	                      <- s2
//	sign(s2)              ->
//	                      <- sign(s1) client salt
//
//	0x80 0 0 LEVEL client s3 sign(salt, head) head data    ->      a request of that client
//	                                                       <- sign(s3) length data
//
// The server adds one to the client's salt after each valid request. So it rejects a copy of an earlier request.

// SignatureSize is the size of a signature in bytes.
const SignatureSize = sha1.Size

// Signature proves that its sender knows a key. Key.Sign computes it.
type Signature = [SignatureSize]byte

// Key is a secret that clients share with the server.
type Key [16]byte

// Keys maps security levels from 0 to 254 to their keys. If level 0 has a key, each request must be signed.
type Keys map[uint8]Key

// signedHead is the number of bytes at the beginning of a request's head that are signed.
const signedHead = 16

// Sign returns the signature of the number salt and of the first signedHead bytes of head, the fixed part of a request.
// head is nil if only a number is signed.
func (k Key) Sign(salt uint32, head []byte) Signature {
	message := make([]byte, 52)
	copy(message, k[:])
	binary.BigEndian.PutUint32(message[len(k):], salt)
	copy(message[len(k)+4:], head[:min(len(head), signedHead)])
	return sha1.Sum(message)
}

// ParseKeys parses lines with a level and a key each. As in Charm++ clients, a key has up to 16 pairs of digits, and
// each pair is a byte in decimal. From the first pair that does not begin with a digit, the bytes are zero. A key with
// an odd number of digits is an error, because Charm++ clients read memory beyond its end and compute a wrong
// signature.
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
	for i := range k {
		pair := text[min(2*i, len(text)):min(2*i+2, len(text))]
		digits := pair[:len(pair)-len(strings.TrimLeft(pair, "0123456789"))]
		n, err := strconv.Atoi(digits)
		if err != nil {
			break
		}
		k[i], ok = byte(n), true
	}
	return k, ok
}

// AuthKind is the kind of message that a client sends first on a connection.
type AuthKind uint8

const (
	Unsigned   AuthKind = iota // a request without a signature; the first 4 bytes are its length
	SignedCall                 // a signed request
	NewClient                  // a challenge
)

// Keys.Begins and Clients.Check return these errors for a client's message that the server must reject.
var (
	ErrUnsigned  = errors.New("it has no signature, and --ccs-auth wants one")
	ErrNoKey     = errors.New("there is no key of its level")
	ErrProtocol  = errors.New("it speaks another protocol")
	ErrSignature = errors.New("its signature is wrong")
	ErrNoClient  = errors.New("it is of no client that was challenged")
)

// Begins returns the kind of a client's first message, and the key with which the message must be signed. The argument
// first contains the first 4 bytes of the message. The key is zero if the message needs no signature. The error is
// ErrUnsigned, ErrNoKey or ErrProtocol.
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

// mostClients is the maximum number of clients in Clients. When this number is reached, Add replaces the oldest client.
const mostClients = 1024

// Clients holds the clients that have proved that they know a key. The zero value is empty.
type Clients struct {
	next  uint32            // number of the next client
	salts map[uint32]uint32 // current salt of each client, by client number
}

// Add adds a client with the given salt and returns its number.
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

// Check verifies the signature s of a client's request. The request begins with the bytes head. If s is valid, Check
// adds one to the client's salt. The error is ErrNoClient or ErrSignature.
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
