// Package hostlist reads the ways in which users write hosts: on the command
// line and in host files. It resolves nothing, opens nothing, and expands no
// range.
package hostlist

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxHosts bounds what one range may name.
const MaxHosts = 1 << 20

// Entry is one host, or a range of hosts whose names differ in a number.
type Entry struct {
	Prefix, Suffix string // around the number; Width 0: the name is Prefix
	Width          int    // digits of the number, zero-padded
	Lo             uint64
	Count          uint32
	User           string
	Slots          uint32 // 0: not written
	HCA            string // "device" or "device:port"
}

// Inline reads "a:2,b,user@c,n[01-16,20]". Slots after a range hold for each
// host of it.
func Inline(text string) ([]Entry, error) {
	var all []Entry
	for _, item := range splitOutside(text, ',') {
		item = strings.TrimSpace(item)
		if item == "" {
			return nil, fmt.Errorf("invalid host list %q: an empty item; write hosts as a,b:2,n[01-16]", text)
		}
		entries, err := one(item)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	return all, nil
}

// Names reads a list of bare names and ranges, as resource managers write it: n[01-16,20],x-ib.
func Names(text string) (all []Entry, err error) {
	total := uint64(0)
	for _, item := range splitOutside(text, ',') {
		entries, err := expandBracket(Entry{}, item)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if total += uint64(e.Count); total > MaxHosts {
				return nil, fmt.Errorf("more than %d hosts", MaxHosts)
			}
		}
		all = append(all, entries...)
	}
	return all, nil
}

// splitOutside splits at sep where it stands outside brackets.
func splitOutside(s string, sep byte) []string {
	var parts []string
	depth, from := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '[':
			depth++
		case ']':
			depth--
		case sep:
			if depth <= 0 {
				parts, from = append(parts, s[from:i]), i+1
			}
		}
	}
	return append(parts, s[from:])
}

// one reads one item: [user@]name[:slots[:hca[:port]]].
func one(item string) ([]Entry, error) {
	var e Entry
	rest := item
	if user, host, ok := strings.Cut(rest, "@"); ok {
		if err := validUser(user); err != nil {
			return nil, err
		}
		e.User, rest = user, host
	}
	name, tail := splitName(rest)
	if tail != "" {
		if err := e.options(tail, item); err != nil {
			return nil, err
		}
	}
	return expandBracket(e, name)
}

// splitName parts the name from what follows it after a colon. An IPv6 address
// stands in brackets, or bare if nothing follows.
func splitName(s string) (name, tail string) {
	if strings.HasPrefix(s, "[") && strings.Contains(s, ":") {
		if i := strings.IndexByte(s, ']'); i > 0 && strings.Contains(s[:i], ":") {
			return s[1:i], strings.TrimPrefix(s[i+1:], ":")
		}
	}
	if strings.Count(s, ":") > 1 && isIPv6(s) {
		return s, ""
	}
	parts := splitOutside(s, ':')
	return parts[0], strings.Join(parts[1:], ":")
}

// isIPv6 tells a bare address from name:slots:hca:port.
func isIPv6(s string) bool {
	return strings.Contains(s, "::") || strings.Count(s, ":") == 7
}

func (e *Entry) options(tail, item string) (err error) {
	slots, hca, _ := strings.Cut(tail, ":")
	if e.Slots, err = parseSlots(slots, item); err != nil {
		return err
	}
	for i := range len(hca) {
		if !wordByte(hca[i]) && hca[i] != ':' {
			return fmt.Errorf("invalid HCA %q: a character that no device has", hca)
		}
	}
	e.HCA = hca
	return nil
}

// parseSlots parses a number of slots. host is the host or list item that an error names.
func parseSlots(slots, host string) (uint32, error) {
	n, err := strconv.ParseUint(slots, 10, 32)
	if err != nil || n < 1 || n > 1<<24 {
		return 0, fmt.Errorf("invalid slots %q of host %q: write a number from 1 to %d", slots, host, 1<<24)
	}
	return uint32(n), nil
}

// maxPrefixes bounds how many names the brackets before a name's last pair make: each is an entry.
const maxPrefixes = 1 << 16

// expandBracket reads the number ranges of a name. The last pair of brackets stays a range. Pairs
// before it are written out, the first of them changing slowest, as Slurm does.
func expandBracket(e Entry, name string) ([]Entry, error) {
	literals, lists, err := cutBrackets(name)
	if err != nil {
		return nil, err
	}
	if len(lists) == 0 {
		if err := ValidName(name); err != nil {
			return nil, err
		}
		e.Prefix, e.Count = name, 1
		return []Entry{e}, nil
	}
	prefixes, total := []string{literals[0]}, uint64(1)
	var ranges []Entry
	for i, list := range lists {
		var count uint64
		if ranges, count, err = numberRanges(name, list); err != nil {
			return nil, err
		}
		if total *= count; total > MaxHosts || i+1 < len(lists) && total > maxPrefixes {
			return nil, fmt.Errorf("host range %q names more than %d hosts", clip(name), MaxHosts)
		}
		if i+1 < len(lists) {
			prefixes = writeOut(prefixes, ranges, literals[i+1])
		}
	}
	all := make([]Entry, 0, len(prefixes)*len(ranges))
	for _, prefix := range prefixes {
		for _, r := range ranges {
			x := e
			x.Prefix, x.Suffix = prefix, literals[len(lists)]
			x.Width, x.Lo, x.Count = r.Width, r.Lo, r.Count
			last := fmt.Sprintf("%s%0*d%s", x.Prefix, x.Width, x.Lo+uint64(x.Count)-1, x.Suffix)
			if err := ValidName(last); err != nil {
				return nil, err
			}
			all = append(all, x)
		}
	}
	return all, nil
}

// cutBrackets parts a name into the lists between brackets and the text around them, of which there
// is one more.
func cutBrackets(name string) (literals, lists []string, err error) {
	for rest := name; ; {
		before, after, found := strings.Cut(rest, "[")
		list, tail, closed := strings.Cut(after, "]")
		if strings.Contains(before, "]") || found && !closed {
			return nil, nil, fmt.Errorf("invalid host range %q: write pairs of brackets, as in n[01-16,20]", clip(name))
		}
		literals = append(literals, before)
		if !found {
			return literals, lists, nil
		}
		lists, rest = append(lists, list), tail
	}
}

// numberRanges reads "01-16,20", and counts its numbers. Only the number of each entry is set.
func numberRanges(name, list string) (all []Entry, total uint64, err error) {
	for _, r := range strings.Split(list, ",") {
		lo, hi, isRange := strings.Cut(r, "-")
		if !isRange {
			hi = lo
		}
		a, err1 := strconv.ParseUint(lo, 10, 62)
		b, err2 := strconv.ParseUint(hi, 10, 62)
		if err1 != nil || err2 != nil || a > b {
			return nil, 0, fmt.Errorf("invalid host range %q: %q is not a range of numbers, as in 01-16", clip(name),
				clip(r))
		}
		if total += b - a + 1; b-a >= MaxHosts || total > MaxHosts {
			return nil, 0, fmt.Errorf("host range %q names more than %d hosts", clip(name), MaxHosts)
		}
		all = append(all, Entry{Width: len(lo), Lo: a, Count: uint32(b - a + 1)})
	}
	return all, total, nil
}

// writeOut appends each number of some ranges, and then a text, to each of some names.
func writeOut(names []string, ranges []Entry, text string) (all []string) {
	for _, name := range names {
		for _, r := range ranges {
			for i := range uint64(r.Count) {
				all = append(all, fmt.Sprintf("%s%0*d%s", name, r.Width, r.Lo+i, text))
			}
		}
	}
	return all
}

// clip shortens what a message quotes.
func clip(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	return text[:maxQuoted] + "..."
}

// maxQuoted is how much of a name a message quotes, in bytes.
const maxQuoted = 80

// ValidName says whether a name can be given to a remote shell: letters,
// digits, ".", "-", "_", and ":" and "%" for IPv6, 255 bytes at most, not
// beginning with "-" (RFC 1123 section 2.1, RFC 4291, RFC 4007).
func ValidName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("invalid host: the name is empty")
	case len(name) > 255:
		return fmt.Errorf("invalid host: a name of %d bytes, at most 255", len(name))
	case name[0] == '-':
		return fmt.Errorf("invalid host %q: it begins with a dash", name)
	case name[0] == '.' || strings.Contains(name, ".."):
		return fmt.Errorf("invalid host %q: it has an empty part", name)
	}
	for i := range len(name) {
		if c := name[i]; !wordByte(c) && c != '.' && c != ':' && c != '%' {
			return fmt.Errorf("invalid host %q: character %q", name, c)
		}
	}
	return nil
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func validUser(user string) error {
	ok := user != "" && user[0] != '-' && len(user) <= 64
	for i := range len(user) {
		ok = ok && (wordByte(user[i]) || user[i] == '.')
	}
	if !ok {
		return fmt.Errorf("invalid login name %q: a character that no login name has", user)
	}
	return nil
}
