// Package environ reads variables of an environment that is given as a list.
package environ

import "strings"

// Lookup finds a variable; the last of several counts, and an empty one is
// not set.
func Lookup(env []string, name string) (value string, ok bool) {
	for _, entry := range env {
		if v, is := strings.CutPrefix(entry, name+"="); is {
			value, ok = v, v != ""
		}
	}
	return value, ok
}
