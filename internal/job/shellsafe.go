package job

import "strings"

// ShellSafe reports whether a word may stand in double quotes within single quotes in any shell:
// letters, digits and /._-+@%:,= only, and at least one of them.
func ShellSafe(word string) bool {
	return word != "" && !strings.ContainsFunc(word, func(c rune) bool {
		alphanumeric := c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		return !alphanumeric && !strings.ContainsRune("/._-+@%:,=", c)
	})
}
