package peer

import "encoding/binary"

// BundledHead is the size in bytes of the header of each message in a bundle. The header is the length of the message,
// big-endian.
const BundledHead = 2

// AppendBundled appends m to the bundle b. A bundle is a sequence of messages that is sent as one message. m has at
// most 65,535 bytes.
func AppendBundled(b, m []byte) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(m))), m...)
}

// CutBundled returns the first message of a bundle and the rest of the bundle. They share memory. If the bundle has no
// further message, ok is false.
func CutBundled(b []byte) (m, rest []byte, ok bool) {
	if len(b) < BundledHead {
		return nil, nil, false
	}
	size := int(binary.BigEndian.Uint16(b))
	if b = b[BundledHead:]; size > len(b) {
		return nil, nil, false
	}
	return b[:size:size], b[size:], true
}

// bundledBytes returns the total length of the messages in a bundle.
func bundledBytes(b []byte) (n int) {
	for m, rest, ok := CutBundled(b); ok; m, rest, ok = CutBundled(rest) {
		n += len(m)
	}
	return n
}
