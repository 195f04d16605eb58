package job

import "strings"

// LookupVariable returns the value of the variable name in env, whose entries have the form NAME=VALUE. If several
// entries have this name, the last one counts. ok is false if no entry has this name, or if the value is empty.
func LookupVariable(env []string, name string) (value string, ok bool) {
	for _, entry := range env {
		if v, is := strings.CutPrefix(entry, name+"="); is {
			value, ok = v, v != ""
		}
	}
	return value, ok
}
