package pmi

import (
	"strconv"
	"strings"
)

// block is what a client has said of a spawn. In PMI-1 it is one block of
// lines, from mcmd=spawn to endcmd, for each program.
type block struct {
	open   bool
	bytes  int
	fields map[string]string
	spawn  Spawn
}

// begin opens the block of a program.
func (e *Engine) begin() {
	if e.block == nil {
		e.block = &block{}
	}
	e.block.open, e.block.fields = true, map[string]string{}
}

// spawning takes a line of a block.
func (e *Engine) spawning(text string) {
	b := e.block
	if b.bytes += len(text) + 1; b.bytes > maxBlock {
		e.fail("a spawn of more than %d bytes", maxBlock)
		return
	}
	if text != "endcmd" {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			e.fail("a line of a spawn that is not name=value: %s", seen(text))
			return
		}
		b.fields[name] = value
		return
	}
	b.open = false
	c := find(1, "spawn")
	part, ok := b.command()
	if !ok || !e.inOrder(c) {
		e.block = nil
		why := "malformed spawn"
		if ok {
			why = e.disorder()
		}
		e.refuse(c, why)
		return
	}
	if !e.preput(c, b) {
		e.block = nil
		return
	}
	b.spawn.Commands = append(b.spawn.Commands, part)
	if b.number("spawnssofar") < b.number("totspawns") {
		return
	}
	e.block = nil
	e.thrid = ""
	e.ask(c, b.spawn)
}

// preput takes the values for the new job from a block, or refuses them.
func (e *Engine) preput(c *command, b *block) bool {
	for _, p := range b.pairs("preput_num", "preput_key_", "preput_val_") {
		if bad := e.wrongPair(p.Key, p.Value); bad != "" {
			e.refuse(c, "preput: "+bad)
			return false
		}
		b.spawn.Preput = append(b.spawn.Preput, p)
	}
	return true
}

// inBlock is what PMI-2 calls the fields of a block, by prefix.
var inBlock = []struct{ frame, block string }{
	{"preputcount", "preput_num"}, {"ppkey", "preput_key_"}, {"ppval", "preput_val_"},
	{"subcmd", "execname"}, {"maxprocs", "nprocs"}, {"argc", "argcnt"}, {"argv", "arg"},
	{"infokeycount", "info_num"}, {"infokey", "info_key_"}, {"infoval", "info_val_"},
}

// spawnFrame takes a PMI-2 spawn: one frame, in which each program begins with
// its subcmd, and what stands before the first is for all.
func (e *Engine) spawnFrame(c *command, m message) {
	b := &block{fields: map[string]string{}}
	blocks := []*block{b}
	for _, f := range m.fields {
		if f.Key == "subcmd" {
			b = &block{fields: map[string]string{}}
			blocks = append(blocks, b)
		}
		for _, w := range inBlock {
			number, is := strings.CutPrefix(f.Key, w.frame)
			if !is {
				continue
			}
			if n, err := strconv.Atoi(number); err == nil && w.frame == "argv" {
				number = strconv.Itoa(n + 1) // blocks count arguments from 1
			}
			b.fields[w.block+number] = f.Value
			break
		}
	}
	all := blocks[0]
	if !e.preput(c, all) {
		return
	}
	for _, b := range blocks[1:] {
		part, ok := b.command()
		if !ok {
			e.refuse(c, "malformed spawn")
			return
		}
		all.spawn.Commands = append(all.spawn.Commands, part)
	}
	if m.value("ncmds") != strconv.Itoa(len(all.spawn.Commands)) || len(all.spawn.Commands) == 0 {
		e.refuse(c, "malformed spawn")
		return
	}
	e.ask(c, all.spawn)
}

// command makes the program of a block.
func (b *block) command() (c Command, ok bool) {
	name := b.fields["execname"]
	c.Argv, c.Ranks = []string{name}, b.number("nprocs")
	for i := 1; i <= b.number("argcnt"); i++ {
		arg, ok := b.fields["arg"+strconv.Itoa(i)]
		if !ok {
			return c, false
		}
		c.Argv = append(c.Argv, arg)
	}
	c.Hints = b.pairs("info_num", "info_key_", "info_val_")
	return c, name != "" && c.Ranks > 0
}

// pairs collects numbered keys and values, from 0.
func (b *block) pairs(count, key, value string) (pairs []Pair) {
	for i := range b.number(count) {
		k, ok := b.fields[key+strconv.Itoa(i)]
		if !ok {
			break
		}
		pairs = append(pairs, Pair{k, b.fields[value+strconv.Itoa(i)]})
	}
	return pairs
}

// number is a field's; 0: it is missing or no number.
func (b *block) number(name string) int {
	n, err := strconv.ParseInt(b.fields[name], 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}
