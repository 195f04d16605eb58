package cli

import (
	"fmt"
	"strings"

	"ibrun/internal/exit"
	"ibrun/internal/plain"
)

// productGrammar returns the grammar of ibrun's command lines.
func productGrammar() *grammar {
	return grammar{options: options(), plus: charm, refused: refused, short: short, words: map[string][2]string{
		"task_affinity": {"bind-to", "auto"}, "tacc_affinity": {"bind-to", "auto"},
	}}.indexed()
}

// Parse reads a whole command line into a request. Nothing is opened but a
// -configfile, with read.
func Parse(args []string, read func(name string) ([]byte, error)) (*Request, error) {
	r := NewRequest()
	p := reading{Request: r, grammar: productGrammar(), global: map[int]Given{}}
	programs, err := p.grammar.Parse(args)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	for _, prog := range programs {
		if err := p.program(prog, ""); err != nil {
			return nil, err
		}
		if r.Action == Help || r.Action == Version {
			return r, nil
		}
	}
	if r.configFile != "" {
		if err := p.config(read); err != nil {
			return nil, err
		}
	}
	if r.Action == MakeCapture || r.Action == ShowTopo || r.Action == PrintCosts {
		return r, nil
	}
	if r.Action == ExamineNodes {
		return r, r.checkDoctor()
	}
	return r, r.finish()
}

// reading represents the state of the parser of a command line. Request is the result so far.
type reading struct {
	*Request
	grammar *grammar
	global  map[int]Given // options given for the whole job, by index in grammar.options
}

// program obeys the options of one program. where, if not empty, says on which
// line of a configuration file it stands.
func (p *reading) program(prog Program, where string) error {
	r := p.Request
	r.now = Segment{Argv: prog.Argv}
	local := map[int]Given{}
	for _, g := range prog.Given {
		k := &p.grammar.options[g.Option]
		seen := p.global
		if k.local {
			seen = local
		}
		before, again := seen[g.Option]
		if again && before.Value != g.Value && !k.many {
			return exit.Usagef("%soption %s contradicts %s: write one of them", where, shown(g), shown(before))
		}
		if again && before.Value == g.Value && !k.many && k.takes != nothing {
			continue
		}
		seen[g.Option] = g
		if strings.HasPrefix(g.Word, "++") && g.Word[2:] == "ppn" {
			r.warn("++ppn %s: in Charm++ this means cores per rank, and so it does here (-c); for ranks per node "+
				"write -ppn", plain.Text(g.Value))
		}
		if err := oneOf(g.Value, k.words); err != nil {
			return exit.Usagef("%soption %s: %v", where, g.Word, err)
		}
		if k.set != nil {
			r.word = g.Word
			if err := k.set(r, g.Value); err != nil {
				return exit.Usagef("%soption %s: %v", where, g.Word, err)
			}
		}
		if r.Action == Help || r.Action == Version {
			return nil
		}
	}
	if r.now.Hosts.Entries != nil && r.now.Hosts.Files != nil {
		return exit.Usagef("%s--hosts and -f both name hosts: write one of them", where)
	}
	r.now.Sets = append(r.now.Sets, prog.Sets...)
	if len(prog.Argv) > 0 {
		r.Segments = append(r.Segments, r.now)
		return nil
	}
	r.Hosts = r.now.Hosts // no program's
	if where != "" || len(r.Segments) > 0 {
		return exit.Usagef("%sno program after the options: write ibrun [options] program [arguments] : [options] "+
			"program [arguments]", where)
	}
	switch {
	case r.configFile != "", r.Action == MakeCapture, r.Action == ExamineNodes, r.Action == PrintCosts:
		return nil
	case r.Binding.Topo && r.Action == Run:
		r.Action = ShowTopo
		return nil
	}
	return exit.Usagef("no program: write ibrun [options] program [arguments]; ibrun -h shows the options")
}

func shown(g Given) string {
	if g.Value == "" || g.Short {
		return g.Word
	}
	return g.Word + " " + Quote(g.Value)
}

// config takes the programs of a file, one a line; a line is what could stand
// between two colons.
func (p *reading) config(read func(string) ([]byte, error)) error {
	r := p.Request
	if len(r.Segments) > 0 {
		return exit.Usagef("-configfile %s and a program: write the program into the file, or leave the file out",
			r.configFile)
	}
	content, err := read(r.configFile)
	if err != nil {
		return exit.Usagef("-configfile: %v", err)
	}
	name := r.configFile
	for i, line := range strings.Split(string(content), "\n") {
		where := fmt.Sprintf("%s:%d: ", name, i+1)
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if strings.IndexByte(line, 0) >= 0 {
			return exit.Usagef("%sbinary data: is it a configuration file?", where)
		}
		words, err := Split(line)
		if err != nil {
			return exit.Usagef("%s%v", where, err)
		}
		programs, err := p.grammar.Parse(words)
		if err != nil {
			return exit.Usagef("%s%v", where, err)
		}
		for _, prog := range programs {
			if err := p.program(prog, where); err != nil {
				return err
			}
			if r.configFile != name {
				return exit.Usagef("%s-configfile inside a configuration file", where)
			}
		}
	}
	if len(r.Segments) == 0 {
		return exit.Usagef("%s: names no program", name)
	}
	return nil
}
