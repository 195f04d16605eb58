package upgrade

import "fmt"

// TokenLen is the length of a token in bytes.
const TokenLen = 8

// Token names a stream of a pair. The rank that makes the offer chooses it; zero is none.
type Token [TokenLen]byte

// Control is the first byte of a control message. docs/dev/protocol.md has the format.
type Control uint8

// The controls. All but WANT have a token behind the first byte.
const (
	Want     Control = iota + 1 // lower rank to higher: offer
	Offer                       // then the fabric's offer
	Switch                      // the sender's next message is on the stream
	GiveUp                      // the attempt has failed; then why, in words
	Leave                       // the stream is not needed any more
	Stay                        // it is: answer to LEAVE
	Returned                    // your direction is read to its end mark
	Broke                       // the stream failed here, with what was on it
	Taken                       // lower rank to higher: the stream is here, and will be read
	Resume                      // the stream has failed; then how many of your messages came by it: the rest, again
	controls
)

func (c Control) String() string {
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
	kind  Control
	token Token
	rest  []byte // offer or reason
}

// parse takes a message apart; false: it is none of the controls.
func parse(m []byte) (c control, ok bool) {
	if len(m) == 0 {
		return c, false
	}
	if c.kind = Control(m[0]); c.kind == Want {
		return c, true
	}
	if c.kind == 0 || c.kind >= controls || len(m) < 1+TokenLen {
		return c, false
	}
	c.token, c.rest = Token(m[1:]), m[1+TokenLen:]
	switch c.kind {
	case Offer:
		return c, len(c.rest) > 0
	case GiveUp:
		return c, true
	case Resume:
		return c, len(c.rest) == countLen
	}
	return c, len(c.rest) == 0
}

// message builds a control message.
func message(kind Control, token Token, rest string) []byte {
	m := []byte{byte(kind)}
	if kind != Want {
		m = append(m, token[:]...)
	}
	return append(m, rest...)
}
