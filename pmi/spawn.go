package pmi

import (
	"strconv"
	"strings"
)

// block is what a PMI-1 client has said of a spawn: one block of lines, from
// mcmd=spawn to endcmd, for each program.
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
	preput := b.pairs("preput_num", "preput_key_", "preput_val_")
	for _, p := range preput {
		bad := e.wrongPair(p.Key, p.Value)
		if bad == "" && !e.fits(find(1, "get"), p.Value) {
			bad = "value too long for a line"
		}
		if bad != "" {
			e.block = nil
			e.refuse(c, "preput: "+bad)
			return
		}
	}
	b.spawn.Commands = append(b.spawn.Commands, part)
	b.spawn.Preput = append(b.spawn.Preput, preput...)
	if b.number("spawnssofar") < b.number("totspawns") {
		return
	}
	e.block = nil
	e.thrid = ""
	e.ask(c, b.spawn)
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
