package job

import "strings"

// LookupVariable finds a variable; the last of several counts, and an empty one is
// not set.
func LookupVariable(env []string, name string) (value string, ok bool) {
	for _, entry := range env {
		if v, is := strings.CutPrefix(entry, name+"="); is {
			value, ok = v, v != ""
		}
	}
	return value, ok
}
