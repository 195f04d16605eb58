package main

import (
	"fmt"
	"strings"
)

// usageError is a command line that cannot be obeyed; ibrun ends with 2.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// takes says what follows an option's name.
type takes uint8

const (
	nothing  takes = iota
	value          // --k v or --k=v
	two            // -env NAME VALUE
	optional       // --k or --k=v
)

// option is one row of the table in options.go.
type option struct {
	names string // without dashes, separated by blanks; the first is the usual one
	takes takes
	// set obeys the option. For two values, v is NAME=VALUE.
	set func(r *request, v string) error
	// later answers for options whose capability this version lacks.
	later string
}

// lookup finds an option by name, without its dashes.
func lookup() map[string]*option {
	m, options := map[string]*option{}, optionTable()
	for i := range options {
		for _, n := range strings.Fields(options[i].names) {
			if m[n] != nil {
				panic("ibrun: two options named " + n)
			}
			m[n] = &options[i]
		}
	}
	return m
}

// parse reads a whole command line into a request. Nothing is opened.
func parse(args []string) (*request, error) {
	r := newRequest()
	table := lookup()
	for {
		rest, err := r.parseOptions(table, args)
		if err != nil {
			return nil, err
		}
		if r.action == help || r.action == version {
			return r, nil
		}
		rest = r.takeAssignments(rest)
		end := len(rest)
		for i, w := range rest {
			if w == ":" {
				end = i
				break
			}
		}
		r.now.argv = rest[:end]
		if len(r.now.argv) == 0 {
			return nil, usagef("no program: write ibrun [options] program [arguments]; ibrun -h shows the options")
		}
		r.segments = append(r.segments, r.now)
		if end == len(rest) {
			return r, nil
		}
		args, r.now = rest[end+1:], segment{}
	}
}

// parseOptions obeys options up to the first word that is none.
func (r *request) parseOptions(table map[string]*option, args []string) ([]string, error) {
	for len(args) > 0 {
		word := args[0]
		if word == "--" {
			return args[1:], nil
		}
		if len(word) < 2 || word[0] != '-' && !strings.HasPrefix(word, "++") {
			if (word == "task_affinity" || word == "tacc_affinity") && len(args) > 1 {
				r.warnLater(word)
				args = args[1:]
				continue
			}
			return args, nil
		}
		name, val, has := strings.Cut(strings.TrimLeft(word, "-+"), "=")
		if strings.HasPrefix(word, "++") && charm[name] != "" {
			name = charm[name]
		}
		o := table[name]
		if o == nil {
			if hint := refused[name]; hint != "" {
				return nil, usagef("option %s is not taken: %s", word, hint)
			}
			return nil, usagef("unknown option %s%s", word, nearest(name, table))
		}
		args = args[1:]
		take := func() error {
			if len(args) == 0 {
				return usagef("option %s has no value", word)
			}
			val, args = args[0], args[1:]
			return nil
		}
		switch {
		case o.takes == nothing && has:
			return nil, usagef("option %s takes no value", word)
		case o.takes == value && !has:
			if err := take(); err != nil {
				return nil, err
			}
		case o.takes == two:
			if !has {
				if err := take(); err != nil {
					return nil, err
				}
			}
			name := val
			if err := take(); err != nil {
				return nil, err
			}
			val = name + "=" + val
		}
		if o.later != "" {
			r.warn("%s: %s", word, o.later)
		}
		if o.set != nil {
			if err := o.set(r, val); err != nil {
				return nil, usagef("option %s: %v", word, err)
			}
		}
		if r.action == help || r.action == version {
			return nil, nil
		}
	}
	return nil, nil
}

// takeAssignments takes the words NAME=VALUE that stand before the program.
func (r *request) takeAssignments(words []string) []string {
	for len(words) > 0 {
		name, _, ok := strings.Cut(words[0], "=")
		if !ok || !isName(name) {
			break
		}
		r.now.sets = append(r.now.sets, words[0])
		words = words[1:]
	}
	return words
}

// isName reports whether s can name an environment variable in a shell.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

// nearest names the option that an unknown one may have meant.
func nearest(name string, table map[string]*option) string {
	best, least := "", 3
	for known := range table {
		if d := distance(name, known); d < least || d == least && known < best {
			best, least = known, d
		}
	}
	if best == "" {
		return "; ibrun -h shows the options"
	}
	return "; did you mean --" + best + "?"
}

// distance is the number of letters to change, add or drop (Levenshtein 1965).
func distance(a, b string) int {
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
