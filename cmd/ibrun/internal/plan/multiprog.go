package plan

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/internal/exit"
	"ibrun/internal/job"
)

// progLine is a line of srun's --multi-prog file: which ranks run what.
type progLine struct {
	ranks  []rankRange // in the order that was written; of "*" none
	rest   bool        // "*": the ranks that no other line names
	argv   []string    // %t and %o stand for the rank and its place in the line
	expand bool        // something stands for them
}

type rankRange struct{ first, count uint32 }

// multiProg is the programs of srun's --multi-prog, of which the file stands in the place of a
// program.
func multiProg(argv []string, size uint32, read readFile) ([]job.Program, error) {
	if len(argv) > 1 {
		return nil, exit.Usagef("--multi-prog: arguments stand in the file: leave out %s", cli.QuoteAll(argv[1:]))
	}
	content, err := read(argv[0])
	if err != nil {
		return nil, exit.Usagef("--multi-prog: %v", err)
	}
	lines, err := progLines(argv[0], content)
	if err != nil {
		return nil, exit.Usagef("--multi-prog: %v", err)
	}
	programs, err := multiPrograms(lines, size)
	if err != nil {
		return nil, exit.Usagef("--multi-prog: %s: %v", argv[0], err)
	}
	return programs, nil
}

// progLines reads a --multi-prog file. A line is ranks, a program and its arguments; # begins a
// comment, and a backslash at the end continues the line. Errors begin with name:line.
func progLines(name string, content []byte) ([]progLine, error) {
	var lines []progLine
	text, started := "", 0
	for i, line := range append(strings.Split(string(content), "\n"), "") {
		if text == "" {
			started = i + 1
		}
		line = strings.TrimSuffix(line, "\r")
		if more, continued := strings.CutSuffix(line, `\`); continued {
			text += more + " "
			continue
		}
		text = strings.TrimSpace(text + line)
		if text != "" && text[0] != '#' {
			l, err := newProgLine(text)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, started, err)
			}
			lines = append(lines, l)
		}
		text = ""
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s: names no program", name)
	}
	return lines, nil
}

func newProgLine(text string) (l progLine, err error) {
	if strings.IndexByte(text, 0) >= 0 {
		return l, fmt.Errorf("binary data: is it a --multi-prog file?")
	}
	who, command, _ := strings.Cut(strings.ReplaceAll(text, "\t", " "), " ")
	if l.rest = who == "*"; !l.rest {
		if l.ranks, err = rankRanges(who); err != nil {
			return l, err
		}
	}
	if l.argv, err = cli.Split(literal(command)); err == nil && len(l.argv) == 0 {
		err = fmt.Errorf("no program after the ranks %s", cli.Quote(who))
	}
	for _, arg := range l.argv {
		l.expand = l.expand || job.Letters(arg) != ""
	}
	if err == nil && !l.expand {
		for i, arg := range l.argv {
			l.argv[i] = strings.ReplaceAll(arg, "%%", "%")
		}
	}
	return l, err
}

// literal doubles each % that stands for nothing: all but %t and %o outside of single quotes.
func literal(command string) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(command); i++ {
		c := command[i]
		quoted = quoted != (c == '\'')
		b.WriteByte(c)
		if c == '%' && (quoted || i+1 == len(command) || command[i+1] != 't' && command[i+1] != 'o') {
			b.WriteByte('%')
		}
	}
	return b.String()
}

// rankRanges reads 0-3,5.
func rankRanges(text string) (all []rankRange, err error) {
	for _, part := range strings.Split(text, ",") {
		lo, hi, span := strings.Cut(part, "-")
		if !span {
			hi = lo
		}
		first, err1 := strconv.ParseUint(lo, 10, 32)
		last, err2 := strconv.ParseUint(hi, 10, 32)
		if err1 != nil || err2 != nil || first > last || last >= job.MaxRanks {
			return nil, fmt.Errorf("%s is no list of ranks: write 0-3,5 or *", cli.Quote(text))
		}
		all = append(all, rankRange{uint32(first), uint32(last - first + 1)})
	}
	return all, nil
}

// multiPrograms gives the ranks of a job to the lines of a --multi-prog file. A line whose ranks do
// not follow each other becomes several programs with one application number.
func multiPrograms(lines []progLine, size uint32) ([]job.Program, error) {
	line := make([]int, size) // that each rank is named by, from 1
	for i, l := range lines {
		for _, span := range l.ranks {
			for rank := span.first; rank < min(size, span.first+span.count); rank++ {
				if line[rank] != 0 {
					return nil, fmt.Errorf("rank %d stands in two lines", rank)
				}
				line[rank] = i + 1
			}
		}
	}
	var rest []rankRange
	for rank := range size {
		if line[rank] == 0 {
			rest = append(rest, rankRange{rank, 1})
		}
	}
	var programs []job.Program
	for i, l := range lines {
		spans, offset := l.ranks, uint32(0)
		if l.rest {
			spans, rest = rest, nil
		}
		for _, span := range spans {
			if span.first >= size {
				continue // srun passes over them, too
			}
			n := min(span.count, size-span.first)
			last := len(programs) - 1
			follows := last >= 0 && programs[last].App == uint32(i) &&
				uint32(programs[last].First)+programs[last].Count == span.first
			if follows {
				programs[last].Count += n
			} else {
				programs = append(programs, job.Program{
					First: job.Rank(span.first), Count: n, App: uint32(i), Offset: offset,
					Argv: l.argv, Expand: l.expand,
				})
			}
			offset += n
		}
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("no line names rank %d of %d; * stands for those that no other line names",
			rest[0].first, size)
	}
	sort.Slice(programs, func(i, j int) bool { return programs[i].First < programs[j].First })
	return programs, nil
}
