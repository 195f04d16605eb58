package cli

import (
	"fmt"
	"strings"
)

// Takes says what follows an option's name.
type Takes uint8

const (
	TakesNothing  Takes = iota // --k
	TakesValue                 // --k v or --k=v
	TakesPair                  // --k NAME V or --k NAME=V
	TakesOptional              // --k or --k=v
)

// Option is one option with all its spellings.
type Option struct {
	Names string // without dashes, separated by blanks; the usual one first
	Takes Takes
	Last  bool // nothing after it is looked at, as with --help
}

// Grammar is what Parse goes by.
type Grammar struct {
	Options []Option
	Plus    map[string]string    // names that mean another option after "++"
	Refused map[string]string    // names that are not taken, with what to write instead
	Words   map[string][2]string // words that stand for an option and its value
	Short   map[string][2]string // options without a value that stand for another one and its value
}

// Given is one option as it was written.
type Given struct {
	Option int    // index in Grammar.Options
	Word   string // as written, without a value: "--np", "++ppn"
	Value  string // the value; for TakesPair in the form NAME=V
	Short  bool   // Word stands for the value, too
}

// Program is one of the programs of a line, which colons separate.
type Program struct {
	Given []Given
	Sets  []string // the words NAME=VALUE before the program
	Argv  []string // the program and its arguments, byte for byte
	Last  bool     // an option said to look no further
}

// Parser is a Grammar made ready.
type Parser struct {
	Grammar
	index map[string]int
}

// NewParser returns a parser for g. It panics if two options have the same name, or if a name of g.Short stands for an
// option that does not exist, because such a grammar is a programming error.
func NewParser(g Grammar) *Parser {
	p := &Parser{g, map[string]int{}}
	for i, o := range g.Options {
		for _, n := range strings.Fields(o.Names) {
			if _, twice := p.index[n]; twice {
				panic("option: two options are named " + n)
			}
			p.index[n] = i
		}
	}
	for n, short := range g.Short {
		_, twice := p.index[n]
		if _, known := p.index[short[0]]; !known || twice {
			panic("option: " + n + " stands for nothing, or for itself")
		}
	}
	return p
}

// Parse divides a command line into programs. Options end at the first word
// that is none; from there to the next ":" stand the program and its
// arguments. After "--" every word to the end is the program's, ":" as well.
// There is at least one program; its Argv is empty if none was named.
func (p *Parser) Parse(args []string) ([]Program, error) {
	var all []Program
	for {
		var now Program
		rest, verbatim, err := p.options(&now, args)
		if err != nil {
			return nil, err
		}
		if now.Last {
			return append(all, now), nil
		}
		end := len(rest)
		for i, w := range rest {
			if w == ":" && !verbatim {
				end = i
				break
			}
		}
		now.Argv = rest[:end:end]
		all = append(all, now)
		if end == len(rest) {
			return all, nil
		}
		args = rest[end+1:]
	}
}

// options takes what stands before the program.
func (p *Parser) options(now *Program, args []string) (rest []string, verbatim bool, err error) {
	for len(args) > 0 && !now.Last {
		word := args[0]
		instead, stands := p.Words[word]
		dashes := prefix(word)
		switch {
		case word == "--":
			return args[1:], true, nil
		case stands && len(args) > 1:
			args = args[1:]
			now.Given = append(now.Given, Given{p.index[instead[0]], word, instead[1], true})
		case dashes > 0:
			if args, err = p.option(now, args, dashes); err != nil {
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

// option takes one option and its value.
func (p *Parser) option(now *Program, args []string, dashes int) ([]string, error) {
	written, value, has := strings.Cut(args[0], "=")
	name := written[dashes:]
	if other := p.Plus[name]; written[0] == '+' && other != "" {
		name = other
	}
	i, known := p.index[name]
	if short, ok := p.Short[name]; ok {
		if has {
			return nil, fmt.Errorf("option %s takes no value", written)
		}
		now.Given = append(now.Given, Given{p.index[short[0]], written, short[1], true})
		return args[1:], nil
	}
	if !known && dashes == 1 && !has {
		// -n4, as some launchers take it
		if short, number := name[:1], name[1:]; isDigits(number) {
			if p.Refused[short] != "" {
				name = short
			}
			j, ok := p.index[short]
			if ok && p.Options[j].Takes == TakesValue {
				i, known, written, value, has = j, true, "-"+short, number, true
			}
		}
	}
	if !known {
		if hint := p.Refused[name]; hint != "" {
			return nil, fmt.Errorf("option %s is not taken: %s", written, hint)
		}
		return nil, fmt.Errorf("unknown option %s%s", Quote(written), p.suggest(name))
	}
	o := p.Options[i]
	args = args[1:]
	take := func() error {
		if len(args) == 0 {
			return fmt.Errorf("option %s has no value", written)
		}
		value, args, has = args[0], args[1:], true
		return nil
	}
	var err error
	switch {
	case o.Takes == TakesNothing && has:
		return nil, fmt.Errorf("option %s takes no value", written)
	case (o.Takes == TakesValue || o.Takes == TakesPair) && !has:
		err = take()
	}
	if err == nil && o.Takes == TakesPair && !strings.Contains(value, "=") {
		first := value
		err = take()
		value = first + "=" + value
	}
	if err != nil {
		return nil, err
	}
	now.Given = append(now.Given, Given{i, written, value, false})
	now.Last = o.Last
	return args, nil
}
