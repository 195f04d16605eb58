package cli

import (
	"fmt"
	"slices"
	"strings"
)

// takes says whether an option has a value, and how the value is written on the command line.
type takes uint8

const (
	nothing  takes = iota // --k
	value                 // --k v or --k=v
	pair                  // --k NAME V or --k NAME=V
	optional              // --k or --k=v
)

// option describes an option: how it is written, and what it does to a request. The options are listed in options.go.
type option struct {
	names string // names without dashes, separated by blanks; the first name is the preferred one
	takes takes
	words []string // valid values; if nil, set checks the value
	// set applies the option to r. For a pair, v is NAME=VALUE.
	set   func(r *Request, v string) error
	many  bool // the option may be repeated, and set is called for each value
	local bool // the option applies to one program; if false, it applies to the whole job
	last  bool // all words after the option are ignored, as after --help
}

// Given represents one option on a command line.
type Given struct {
	Option int    // index in grammar.options
	Word   string // the option as the user wrote it, without a value: "--np", "++ppn"
	Value  string // value of the option; a pair has the form NAME=V
	Short  bool   // the option was written in a form of grammar.short, which implies Value
}

// Program represents one program of a command line. Colons separate the programs.
type Program struct {
	Given []Given
	Sets  []string // the words NAME=VALUE before the program
	Argv  []string // the program and its arguments, byte for byte
	Last  bool     // an option with last was given, so that the words after it are ignored
}

// grammar defines the syntax of a command line.
type grammar struct {
	options []option
	plus    map[string]string    // names of options, by the name that is written after "++"
	refused map[string]string    // for each refused name, a hint that names the replacement
	words   map[string][2]string // name and value of an option, by the word that stands for both
	short   map[string][2]string // name and value of an option, by the option without a value that stands for both

	index map[string]int // index in options by option name; set by indexed
}

// indexed fills the field index and returns g. It panics if two options have the same name, or if a name of g.short
// stands for an option that does not exist, because such a grammar is a programming error.
func (g grammar) indexed() *grammar {
	g.index = map[string]int{}
	for i, o := range g.options {
		for _, n := range strings.Fields(o.names) {
			if _, twice := g.index[n]; twice {
				panic("option: two options are named " + n)
			}
			g.index[n] = i
		}
	}
	for n, short := range g.short {
		_, twice := g.index[n]
		if _, known := g.index[short[0]]; !known || twice {
			panic("option: " + n + " stands for nothing, or for itself")
		}
	}
	return &g
}

// Parse divides a command line into programs. The first word that is not an option is the name of a program. The words
// up to the next ":" are its arguments. After "--", all words to the end belong to the program, even ":". The result
// has at least one program. Its Argv is empty if the command line names no program.
func (g *grammar) Parse(args []string) ([]Program, error) {
	var all []Program
	for {
		var now Program
		rest, verbatim, err := g.takeOptions(&now, args)
		if err != nil {
			return nil, err
		}
		if now.Last {
			return append(all, now), nil
		}
		end := slices.Index(rest, ":")
		if end < 0 || verbatim {
			end = len(rest)
		}
		now.Argv = rest[:end:end]
		all = append(all, now)
		if end == len(rest) {
			return all, nil
		}
		args = rest[end+1:]
	}
}

// takeOptions adds the options at the beginning of args to now, and returns the words after the options. Verbatim
// reports whether the options were ended by "--".
func (g *grammar) takeOptions(now *Program, args []string) (rest []string, verbatim bool, err error) {
	for len(args) > 0 && !now.Last {
		word := args[0]
		instead, stands := g.words[word]
		dashes := prefix(word)
		switch {
		case word == "--":
			return args[1:], true, nil
		case stands && len(args) > 1:
			args = args[1:]
			now.Given = append(now.Given, Given{g.index[instead[0]], word, instead[1], true})
		case dashes > 0:
			if args, err = g.takeOption(now, args, dashes); err != nil {
				return nil, false, err
			}
		case isAssignment(word):
			now.Sets = append(now.Sets, word)
			args = args[1:]
		default:
			return args, false, nil
		}
	}
	return args, false, nil
}

// prefix is the number of dashes that make a word an option. A dash alone is a
// word like any other.
func prefix(word string) int {
	switch {
	case strings.HasPrefix(word, "--") || strings.HasPrefix(word, "++"):
		return 2
	case len(word) > 1 && word[0] == '-':
		return 1
	}
	return 0
}

// takeOption adds the first option of args and its value to now, and returns the words after the option and its value.
// Dashes is the number of dashes or plus signs before the name of the option.
func (g *grammar) takeOption(now *Program, args []string, dashes int) ([]string, error) {
	written, text, has := strings.Cut(args[0], "=")
	name := written[dashes:]
	if other := g.plus[name]; written[0] == '+' && other != "" {
		name = other
	}
	i, known := g.index[name]
	if short, ok := g.short[name]; ok {
		if has {
			return nil, fmt.Errorf("option %s takes no value", written)
		}
		now.Given = append(now.Given, Given{g.index[short[0]], written, short[1], true})
		return args[1:], nil
	}
	if !known && dashes == 1 && !has {
		// -n4, as some launchers take it
		if short, number := name[:1], name[1:]; isNumber(number) {
			if g.refused[short] != "" {
				name = short
			}
			j, ok := g.index[short]
			if ok && g.options[j].takes == value {
				i, known, written, text, has = j, true, "-"+short, number, true
			}
		}
	}
	if !known {
		if hint := g.refused[name]; hint != "" {
			return nil, fmt.Errorf("option %s is not taken: %s", written, hint)
		}
		return nil, fmt.Errorf("unknown option %s%s", Quote(written), g.suggest(name))
	}
	o := g.options[i]
	if o.takes == nothing && has {
		return nil, fmt.Errorf("option %s takes no value", written)
	}
	args = args[1:]
	for o.takes == value && !has || o.takes == pair && !strings.Contains(text, "=") {
		switch {
		case len(args) == 0:
			return nil, fmt.Errorf("option %s has no value", written)
		case has:
			text += "=" + args[0]
		default:
			text, has = args[0], true
		}
		args = args[1:]
	}
	now.Given = append(now.Given, Given{i, written, text, false})
	now.Last = o.last
	return args, nil
}
