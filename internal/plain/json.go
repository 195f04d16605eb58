package plain

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// WriteJSON writes a value as a line of JSON that is plain, too: strings in it
// have such characters in JSON's own notation.
func WriteJSON(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	quoted := make([]byte, 0, len(text)+1)
	for _, r := range string(text) { // valid UTF-8, and ASCII outside strings
		if strconv.IsGraphic(r) {
			quoted = utf8.AppendRune(quoted, r)
		} else {
			quoted = quote(quoted, r)
		}
	}
	_, err = w.Write(append(quoted, '\n'))
	return err
}

func quote(b []byte, r rune) []byte {
	if r > 0xffff {
		high, low := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00 // UTF-16, as RFC 8259 section 7 wants it
		return fmt.Appendf(b, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(b, `\u%04x`, r)
}
