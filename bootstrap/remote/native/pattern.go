package native

import "strings"

// Match reports whether s fits a pattern of OpenSSH: * stands for any bytes,
// ? for exactly one (match.c, match_pattern).
func Match(s, pattern string) bool {
	star, mark := -1, 0
	i, p := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			i, p = i+1, p+1
		case star >= 0:
			mark++
			i, p = mark, star+1
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// MatchList reports whether s fits a list of patterns with commas between
// them. One that begins with ! and fits makes it false whatever else fits.
func MatchList(s, list string) bool { return matchAny(s, strings.Split(list, ",")) }

// matchAny is like MatchList, but takes the patterns as a slice.
func matchAny(s string, patterns []string) bool {
	found := false
	for _, p := range patterns {
		p, not := strings.CutPrefix(p, "!")
		if Match(s, p) {
			if not {
				return false
			}
			found = true
		}
	}
	return found
}
