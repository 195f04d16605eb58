// Package plain formats output for users. It escapes bytes and characters that could control the terminal or mislead
// the reader, for example as \x9b or \u202e, in texts that come from programs, hosts and files. It also formats numbers
// with nouns, such as "2 nodes", and writes JSON.
package plain

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Text is one line of ibrun's own: what has no picture of its own is written
// out, line breaks, control and format characters, and bytes that are no UTF-8.
// Tab and spaces stay.
func Text(s string) string {
	return string(show([]byte(s), func(r rune) bool { return r == '\t' || strconv.IsGraphic(r) }))
}

// Output is text of a program that a terminal shows, which may be in any language
// and draw progress bars: tab, line feed, carriage return and backspace stay. The
// rest is the beginning of a character whose end may come later, at most three bytes.
func Output(b []byte) (shown, rest []byte) {
	whole := len(b) - cut(b)
	return show(b[:whole], harmless), b[whole:]
}

// Rest is an Output's rest to which nothing came.
func Rest(b []byte) []byte { return show(b, harmless) }

func harmless(r rune) bool {
	switch {
	case r < ' ':
		return r >= '\b' && r <= '\n' || r == '\r'
	case r >= 0x7f && r < 0xa0: // delete, and the controls that 8-bit terminals obey
		return false
	}
	// embeddings, overrides and isolates of direction (Unicode UAX #9)
	return r < 0x202a || r > 0x202e && r < 0x2066 || r > 0x2069
}

// cut is the number of bytes at the end of b that begin a character.
func cut(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if end := b[len(b)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}

// show writes out what is not fine. A b without such characters is returned as it is.
func show(b []byte, fine func(rune) bool) []byte {
	var out []byte
	from := 0 // what is not in out yet
	for at := 0; at < len(b); {
		r, size := utf8.DecodeRune(b[at:])
		if bad := r == utf8.RuneError && size == 1; bad || !fine(r) {
			out = append(out, b[from:at]...)
			if bad {
				r = rune(b[at])
			}
			out = fmt.Appendf(out, form(r, size), r)
			from = at + size
		}
		at += size
	}
	if from == 0 {
		return b
	}
	return append(out, b[from:]...)
}

func form(r rune, size int) string {
	switch {
	case size == 1:
		return `\x%02x`
	case r <= 0xffff:
		return `\u%04x`
	}
	return `\U%08x`
}

// Plural returns n followed by the noun thing, to which it appends an s unless n is 1: "1 node", "2 nodes".
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
