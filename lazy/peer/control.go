package peer

import "fmt"

// TokenLen is the length of a token in bytes.
const TokenLen = 8

// Token names a stream of a pair. The rank that makes the offer chooses it; zero is none.
type Token [TokenLen]byte

// controlKind is the first byte of a control message. docs/dev/protocol.md has the format.
type controlKind uint8

// The controls. All but WANT have a token behind the first byte.
const (
	controlWant     controlKind = iota + 1 // lower rank to higher: offer
	controlOffer                           // then the fabric's offer
	controlSwitch                          // the sender's next message is on the stream
	controlGiveUp                          // the attempt has failed; then why, in words
	controlLeave                           // the stream is not needed any more
	controlStay                            // it is: answer to LEAVE
	controlReturned                        // your direction is read to its end mark
	controlBroke                           // the stream failed here, with what was on it
	controlTaken                           // lower rank to higher: the stream is here, and will be read
	controlResume                          // the stream has failed; then how many of your messages came by it: the rest, again
	controls
)

func (c controlKind) String() string {
	if c == 0 || c >= controls {
		return fmt.Sprintf("control %d", uint8(c))
	}
	return [...]string{"", "WANT", "OFFER", "SWITCH", "GIVEUP", "LEAVE", "STAY", "RETURNED", "BROKEN", "TAKEN",
		"RESUME"}[c]
}

// countLen is the length in bytes of the count that goes with a RESUME.
const countLen = 8

// longestReason is the most of a reason, in bytes, that goes with a GIVEUP.
const longestReason = 512

// control is a control message, taken apart.
type control struct {
	kind  controlKind
	token Token
	rest  []byte // offer or reason
}

// parseControl takes a message apart; false: it is none of the controls.
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

// controlMessage builds a control message.
func controlMessage(kind controlKind, token Token, rest string) []byte {
	m := []byte{byte(kind)}
	if kind != controlWant {
		m = append(m, token[:]...)
	}
	return append(m, rest...)
}
