package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// farthest is how many letters an unknown name may be away from a known one
// to be taken for it: two slips of the fingers.
const farthest = 2

func (g *grammar) suggest(name string) string {
	known := slices.AppendSeq(slices.Collect(maps.Keys(g.index)), maps.Keys(g.short))
	best := Nearest(name, known)
	switch {
	case best == "":
		return "; ibrun -h shows the options"
	case len(best) == 1:
		return "; did you mean -" + best + "?"
	}
	return "; did you mean --" + best + "?"
}

// Nearest is the word of known that name may have meant, or empty.
func Nearest(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	best, least := "", min(farthest, len(name)-1)+1
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := Distance(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// Distance is the number of bytes to change, add or drop to make b of a
// (Levenshtein 1965).
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// isAssignment reports whether a word is NAME=VALUE as a shell has it.
func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && IsName(name)
}

// IsName reports whether s can name an environment variable in a shell.
func IsName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

// Quote shows a word that somebody wrote: as it is if it is plain and short.
func Quote(word string) string {
	cut := word
	if len(cut) > 60 {
		cut = cut[:57] + "..."
	}
	if q := strconv.Quote(cut); q != `"`+cut+`"` || strings.ContainsRune(cut, ' ') || cut == "" {
		return q
	}
	return cut
}

// Split divides a line into words as a shell does, for blanks, quotes and
// backslashes; nothing is expanded. Between single quotes every byte stands
// for itself, between double quotes a backslash keeps \ and " from meaning
// anything.
func Split(line string) (words []string, err error) {
	var word []byte
	in, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		more := i+1 < len(line)
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && quote == 0 && more, c == '\\' && quote == '"' && more && (line[i+1] == '"' ||
			line[i+1] == '\\'):
			i++
			word, in = append(word, line[i]), true
		case quote != 0:
			word = append(word, c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ' || c == '\t':
			if in {
				words = append(words, string(word))
			}
			word, in = word[:0], false
		default:
			word, in = append(word, c), true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a %c is not closed in %s", quote, Quote(line))
	}
	if in {
		words = append(words, string(word))
	}
	return words, nil
}

// QuoteAll shows words so that a shell would read them back.
func QuoteAll(words []string) string {
	var out []string
	for _, w := range words {
		if len(w) > 60 {
			w = w[:57] + "..."
		}
		if w == "" || strings.ContainsAny(w, " \t\n'\"$`\\*?[]{}();&|<>#~!") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}
