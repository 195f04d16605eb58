package pmix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The client's first message is a header and a body. The header is 16 bytes: eight of 0xff, the
// length of the body in the order of this machine, and four of 0. The body, whose numbers are
// big-endian:
//
//	security NUL, u32 length of credential, credential: uid and gid in the machine's order
//	u8 kind, namespace NUL, u32 rank, version NUL, dialect NUL, u8 kind of buffers, store NUL
//
// Some versions add bytes, which mean nothing. The reply is an i32 status and a u32 index,
// big-endian; after a status other than Done the connection ends.
const (
	headerSize  = 16
	maxHello    = 4 << 10 // bytes of the body
	kindRank    = 0       // of the client: tools, launchers and schedulers have other kinds
	bufferPlain = 1       // of buffers: items have no description of their types
	security    = "native"
)

var errRefused = errors.New("the client was refused")

// helloLength reads the header of the client's first message.
func helloLength(head []byte) (uint32, error) {
	n := binary.NativeEndian.Uint32(head[8:])
	switch {
	case !bytes.Equal(head[:8], bytes.Repeat([]byte{0xff}, 8)):
		return 0, errors.New("this is no client of PMIx")
	case n > maxHello:
		return 0, fmt.Errorf("a handshake of %d bytes; at most %d are taken", n, maxHello)
	}
	return n, nil
}

// parseHello reads the body of the client's first message.
func parseHello(b []byte) (j Join, err error) {
	r := reader{b: b, enc: Fixed}
	how := r.line()
	credential := r.take(uint64(r.u32()))
	kind := r.octet()
	if r.err == nil && kind != kindRank {
		return j, fmt.Errorf("a client of kind %d, which is no rank", kind)
	}
	j.Namespace, j.Rank = r.line(), Rank(r.u32())
	j.Version, j.Dialect = r.line(), r.line()
	buffers := r.octet()
	j.Store = r.line()
	_, known := dialects[j.Dialect]
	switch {
	case r.err != nil:
		return j, fmt.Errorf("the handshake: %w", r.err)
	case how != security || len(credential) != 8:
		return j, fmt.Errorf("a credential of %d bytes by %.20q instead of %q", len(credential), how, security)
	case !known:
		return j, fmt.Errorf("the dialect %.20q, which was not offered", j.Dialect)
	case buffers != bufferPlain:
		return j, fmt.Errorf("buffers of kind %d, which were not offered", buffers)
	}
	j.UID, j.GID = binary.NativeEndian.Uint32(credential), binary.NativeEndian.Uint32(credential[4:])
	return j, nil
}

// line reads a text up to its NUL byte.
func (r *reader) line() string {
	end := bytes.IndexByte(r.b, 0)
	if end < 0 {
		r.fail(errText)
		return ""
	}
	return string(r.take(uint64(end + 1))[:end])
}

// handshakeReply is the reply to the client's first message.
func handshakeReply(s Status, index uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(s)), index)
}

// index is a number that the client sends back in the header of each message, where it has no use.
func (e *Engine) index() uint32 { return uint32(e.client.Rank) }

// major is the client's version up to the first dot; 0 if it is no number.
func (e *Engine) major() int {
	first, _, _ := strings.Cut(e.client.Version, ".")
	n, _ := strconv.Atoi(first)
	return n
}
