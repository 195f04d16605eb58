package job

import (
	"fmt"
	"strings"
)

// A pattern is text in which a letter behind % stands for something, as in out.%r. Digits between
// the two are the least width of a number, filled with zeros: %4r. %% is a per cent sign.

// mostWidth bounds the digits of a number: those of the largest.
const mostWidth = 20

// scan takes a pattern apart: each gets text as it is with letter 0, %% with letter %, and all else
// with its letter and width, 0 if there is none. What stands for nothing is an error.
func scan(pattern string, each func(raw string, letter byte, width int) (ok bool)) error {
	for i := 0; i < len(pattern); {
		from := i
		if pattern[i] != '%' {
			if i = strings.IndexByte(pattern[from:], '%'); i < 0 {
				i = len(pattern) - from
			}
			i += from
			each(pattern[from:i], 0, 0)
			continue
		}
		width := 0
		for i++; i < len(pattern) && pattern[i] >= '0' && pattern[i] <= '9' && width <= mostWidth; i++ {
			width = 10*width + int(pattern[i]-'0')
		}
		known := i < len(pattern) && width <= mostWidth && (pattern[i] != '%' || i == from+1)
		i = min(i+1, len(pattern))
		if !known || !each(pattern[from:i], pattern[i-1], width) {
			return fmt.Errorf("%q stands for nothing", pattern[from:i])
		}
	}
	return nil
}

// Expand fills in a pattern. The value of a letter comes from of, which gets the width, 0 if there
// is none; ok is false for letters that stand for nothing, which the error names.
func Expand(pattern string, of func(letter byte, width int) (text string, ok bool)) (string, error) {
	var b strings.Builder
	err := scan(pattern, func(raw string, letter byte, width int) bool {
		text, ok := raw, true
		switch letter {
		case 0:
		case '%':
			text = "%"
		default:
			text, ok = of(letter, width)
		}
		b.WriteString(text)
		return ok
	})
	if err != nil {
		return "", err
	}
	return b.String(), nil
}

// Fill puts a text in the place of one letter; the rest stays a pattern.
func Fill(pattern string, letter byte, text string) string {
	var b strings.Builder
	_ = scan(pattern, func(raw string, l byte, _ int) bool { // what stands for nothing is checked by others
		if l == letter {
			raw = strings.ReplaceAll(text, "%", "%%")
		}
		b.WriteString(raw)
		return true
	})
	return b.String()
}

// Letters returns the letters after % in a pattern, in order and with repetitions.
func Letters(pattern string) string {
	var letters []byte
	_, _ = Expand(pattern, func(letter byte, _ int) (string, bool) { // callers check that the pattern is valid
		letters = append(letters, letter)
		return "", true
	})
	return string(letters)
}

// Padded is a number with a least width.
func Padded(n uint64, width int) string { return fmt.Sprintf("%0*d", width, n) }
