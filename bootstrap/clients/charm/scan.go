package charm

import (
	"strconv"
	"strings"
)

// Eaten is how many bytes of an input a scanf with a format takes. It is not enough if more input
// could belong to it, which over says will not come. The program reads what it is given by itself,
// so that only the extent must be right: scanf(3) without the values.
func Eaten(format, input string, over bool) (n int, enough bool) {
	s := scan{input: input}
	for len(format) > 0 && !s.failed {
		format = s.directive(format)
		if s.at == len(input) && !over {
			return 0, false // even after the last conversion: a word may go on
		}
	}
	return s.at, true
}

type scan struct {
	input  string
	at     int
	failed bool // the input is not what the format says
}

func blank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// run goes on while bytes fit, for at most so many, and fails if there is none.
func (s *scan) run(most int, fits func(byte) bool) {
	from := s.at
	for s.at < len(s.input) && s.at-from < most && fits(s.input[s.at]) {
		s.at++
	}
	s.failed = s.failed || s.at == from
}

func (s *scan) skipBlanks() {
	s.at = len(s.input) - len(strings.TrimLeft(s.input[s.at:], " \t\n\v\f\r"))
}

// directive does the first directive of a format, and returns the rest.
func (s *scan) directive(f string) (rest string) {
	switch {
	case blank(f[0]):
		s.skipBlanks()
		return f[1:]
	case f[0] != '%' || len(f) == 1:
		s.run(1, func(c byte) bool { return c == f[0] })
		return f[1:]
	}
	f = strings.TrimPrefix(f[1:], "*")
	rest = strings.TrimLeft(f, "0123456789")
	width, err := strconv.Atoi(f[:len(f)-len(rest)])
	given := err == nil && width > 0
	if !given {
		width = len(s.input) + 1
	}
	f = strings.TrimLeft(rest, "hlLjztqm") // modifiers: h, hh, l, ll, L, j, z, t, q, m
	if f == "" {
		s.failed = true
		return ""
	}
	return s.conversion(f, width, given)
}

func (s *scan) conversion(f string, width int, given bool) (rest string) {
	switch f[0] {
	case 'n':
	case '%':
		s.skipBlanks()
		s.run(1, func(c byte) bool { return c == '%' })
	case 'c':
		if !given {
			width = 1
		}
		s.run(width, func(byte) bool { return true })
	case '[':
		in, rest := set(f[1:])
		s.run(width, in)
		return rest
	case 'd', 'u', 'o':
		s.number(width, "0123456789+-")
	case 'i', 'x', 'X', 'p':
		s.number(width, "0123456789abcdefxABCDEFX+-")
	case 'e', 'f', 'g', 'a', 'E', 'F', 'G', 'A': // also inf, infinity, nan, and hexadecimal ones
		s.number(width, "0123456789abcdefxpintyABCDEFXPINTY+-.")
	default:
		s.skipBlanks()
		s.run(width, func(c byte) bool { return !blank(c) })
	}
	return f[1:]
}

// number eats a number of some letters. What is none of C's, such as "1-2", the program refuses.
func (s *scan) number(width int, letters string) {
	s.skipBlanks()
	s.run(width, func(c byte) bool { return strings.IndexByte(letters, c) >= 0 })
}

// set reads a set of %[: its bytes up to the bracket, which may come first as one of them.
func set(f string) (in func(byte) bool, rest string) {
	not := len(f) > 0 && f[0] == '^'
	if not {
		f = f[1:]
	}
	end := 0
	for end < len(f) && (f[end] != ']' || end == 0) {
		end++
	}
	bytes := [256]bool{}
	for i := 0; i < end; i++ {
		if bytes[f[i]] = true; i+2 < end && f[i+1] == '-' {
			for c := int(f[i]); c <= int(f[i+2]); c++ {
				bytes[c] = true
			}
			i += 2
		}
	}
	return func(c byte) bool { return bytes[c] != not }, f[min(end+1, len(f)):]
}
