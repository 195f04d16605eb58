package peer

import "fmt"

// TokenLen is the length of a token in bytes.
const TokenLen = 8

// Token identifies a stream of a pair. The rank that makes the offer chooses it. The zero Token means no stream.
type Token [TokenLen]byte

// controlKind is the kind of a control message, and its first byte. docs/dev/protocol.md has the format.
type controlKind uint8

// The kinds of control messages. After the first byte, each message has a token, except WANT.
const (
	controlWant     controlKind = iota + 1 // from the lower rank: asks the higher rank for an offer
	controlOffer                           // from the higher rank: offers a stream; followed by the fabric's offer
	controlSwitch                          // the next messages of the sender are on the stream
	controlGiveUp                          // the attempt has failed; followed by the reason as text
	controlLeave                           // the sender does not need the stream any more
	controlStay                            // answer to LEAVE: the sender still needs the stream
	controlReturned                        // the sender has read the receiver's end mark from the stream
	controlBroke                           // the stream has failed at the sender, and its messages are lost
	controlTaken                           // from the lower rank: it has the stream and will read it
	controlResume                          // the stream has failed; followed by the number of messages received by it
	controls                               // number of kinds, plus 1
)

func (c controlKind) String() string {
	if c == 0 || c >= controls {
		return fmt.Sprintf("control %d", uint8(c))
	}
	return [...]string{"", "WANT", "OFFER", "SWITCH", "GIVEUP", "LEAVE", "STAY", "RETURNED", "BROKEN", "TAKEN",
		"RESUME"}[c]
}

// countLen is the length in bytes of the count in a RESUME.
const countLen = 8

// longestReason is the maximum length in bytes of the reason in a GIVEUP.
const longestReason = 512

// control is a parsed control message.
type control struct {
	kind  controlKind
	token Token
	rest  []byte // offer, reason or count
}

// parseControl parses a control message. ok is false if m is not a valid one.
func parseControl(m []byte) (c control, ok bool) {
	if len(m) == 0 {
		return c, false
	}
	if c.kind = controlKind(m[0]); c.kind == controlWant {
		return c, true
	}
	if c.kind == 0 || c.kind >= controls || len(m) < 1+TokenLen {
		return c, false
	}
	c.token, c.rest = Token(m[1:]), m[1+TokenLen:]
	switch c.kind {
	case controlOffer:
		return c, len(c.rest) > 0
	case controlGiveUp:
		return c, true
	case controlResume:
		return c, len(c.rest) == countLen
	}
	return c, len(c.rest) == 0
}

// controlMessage builds a control message. rest is the offer, the reason or the count.
func controlMessage(kind controlKind, token Token, rest string) []byte {
	m := []byte{byte(kind)}
	if kind != controlWant {
		m = append(m, token[:]...)
	}
	return append(m, rest...)
}
