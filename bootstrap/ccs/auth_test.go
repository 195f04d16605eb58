package ccs

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSign compares the signature of a byte 1 and 51 zero bytes with that of Charm++'s test program. Only the first
// signedHead bytes of a head must affect a signature.
func TestSign(t *testing.T) {
	s := Key{1}.Sign(0, nil)
	require.Equal(t, "f9693b3ae7791c4ace70ce31e4c2213f21ce900a", hex.EncodeToString(s[:]))
	head := make([]byte, RequestSize)
	plain := Key{1}.Sign(7, head)
	require.NotEqual(t, s, plain)
	head[signedHead] = 1
	require.Equal(t, plain, Key{1}.Sign(7, head), "bytes after signedHead are not signed")
	head[signedHead-1] = 1
	require.NotEqual(t, plain, Key{1}.Sign(7, head))
}

// TestParseKeys parses keys as pairs of decimal digits, as Charm++ clients do, and lines that must be refused.
func TestParseKeys(t *testing.T) {
	keys, err := ParseKeys("0 1234\n\n 254  9a10ff99\n7 1230\n")
	require.NoError(t, err)
	require.Equal(t, Keys{0: {12, 34}, 254: {9, 10}, 7: {12, 30}}, keys)
	for text, why := range map[string]string{"": "no key", "\n": "no key", "1": "line 1", "255 12": "line 1",
		"0 12\nx 12": "line 2", "0 ff": "begins with a digit", "0 12 13": "line 1", "0 123": "even number of digits"} {
		_, err := ParseKeys(text)
		require.ErrorContains(t, err, why, text)
	}
}

// TestBegins checks which first bytes are accepted, and with which key, by servers with and without a key of level 0.
func TestBegins(t *testing.T) {
	open, shut := Keys{3: {1}}, Keys{0: {2}}
	for _, c := range []struct {
		keys  Keys
		first [4]byte
		kind  AuthKind
		key   Key
		err   error
	}{
		{nil, [4]byte{0, 0, 0, 9}, Unsigned, Key{}, nil},
		{open, [4]byte{0x1f, 0, 0, 9}, Unsigned, Key{}, nil},
		{shut, [4]byte{0, 0, 0, 9}, Unsigned, Key{}, ErrUnsigned},
		{open, [4]byte{0x80, 0, 0, 3}, SignedCall, Key{1}, nil},
		{shut, [4]byte{0x80, 0, 1, 0}, NewClient, Key{2}, nil},
		{open, [4]byte{0x80, 0, 1, 0}, Unsigned, Key{}, ErrNoKey},
		{nil, [4]byte{0x80, 0, 1, 0}, Unsigned, Key{}, ErrNoKey},
		{shut, [4]byte{0x80, 1, 0, 0}, Unsigned, Key{}, ErrProtocol},
		{shut, [4]byte{0x80, 0, 2, 0}, Unsigned, Key{}, ErrProtocol},
		{open, [4]byte{0x20, 0, 0, 3}, Unsigned, Key{}, ErrProtocol},
	} {
		kind, key, err := c.keys.Begins(c.first)
		require.ErrorIs(t, err, c.err, "%v", c.first)
		require.Equal(t, c.kind, kind, "%v", c.first)
		require.Equal(t, c.key, key, "%v", c.first)
	}
}

// TestClients checks that a signed request is accepted once, only from a known client and only with the right key.
func TestClients(t *testing.T) {
	var c Clients
	key, head := Key{1}, make([]byte, RequestSize)
	client := c.Add(70)
	require.ErrorIs(t, c.Check(key, client+1, head, key.Sign(70, head)), ErrNoClient)
	require.ErrorIs(t, c.Check(key, client, head, Key{2}.Sign(70, head)), ErrSignature)
	require.NoError(t, c.Check(key, client, head, key.Sign(70, head)))
	require.ErrorIs(t, c.Check(key, client, head, key.Sign(70, head)), ErrSignature, "the same signature a second time")
	require.NoError(t, c.Check(key, client, head, key.Sign(71, head)))
	for range mostClients {
		c.Add(1)
	}
	require.ErrorIs(t, c.Check(key, client, head, key.Sign(72, head)), ErrNoClient, "the oldest client was replaced")
	require.Len(t, c.salts, mostClients)
}
