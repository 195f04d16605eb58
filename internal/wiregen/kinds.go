package main

import (
	"fmt"
	"slices"
	"strings"
)

// kinds writes kinds_gen.go: the constants of the schema, the constants of the message kinds, and the vocabulary.
func (g *generator) kinds() {
	g.f("// Limits of messages and their fields.\nconst (\n")
	for _, d := range g.own("const") {
		g.f("%s = %s // %s\n", d.name, d.text, d.comment)
	}
	g.f(")\n\n// Kinds of messages.\nconst (\n")
	for _, d := range g.messages() {
		if d.pkg == g.pkg {
			g.f("Kind%s frame.Kind = %d\n", d.name, d.number)
		}
	}
	about := "Vocabulary contains the kinds that agents send to each other, with those that they relay for ranks."
	ends := []string{"down", "up", "root"}
	if g.pkg == "rankwire" {
		about = "Vocabulary contains the kinds that a rank and its agent send to each other."
		ends = []string{"rank", "agent"}
	}
	g.f(")\n\n// %s\nvar Vocabulary = frame.Vocabulary{\n", about)
	for _, d := range g.messages() {
		var from []string
		for _, s := range d.senders {
			if slices.Contains(ends, s) {
				from = append(from, senders[s])
			}
		}
		if len(from) == 0 {
			continue
		}
		kind, parse := "Kind"+d.name, "parse"+d.name
		if d.pkg != g.pkg {
			kind = d.pkg + "." + kind
			parse = d.pkg + ".Vocabulary[" + kind + "].Parse"
		}
		g.f("%s: {Name: %q, From: %s, Parse: %s", kind, d.name, strings.Join(from, "|"), parse)
		if d.once {
			g.f(", Once: true")
		}
		g.f("},\n")
	}
	g.f("}\n")
}

// methods writes the methods Kind and String of messages, and the functions that decode a frame to a message.
func (g *generator) methods() {
	for _, d := range g.own("message") {
		g.f("\n// Kind returns Kind%[1]s.\nfunc (%[1]s) Kind() frame.Kind { return Kind%[1]s }\n", d.name)
		g.f("\nfunc parse%[1]s(r *frame.Decoder) frame.Message {\nvar m %[1]s\nm.Decode(r)\nreturn m\n}\n", d.name)
		format, args := g.text(d, "", "m.")
		if len(args) == 0 {
			g.f("\nfunc (%s) String() string { return %q }\n", d.name, d.name)
			continue
		}
		g.f("\nfunc (m %s) String() string {\nreturn fmt.Sprintf(%q, %s)\n}\n", d.name, d.name+format,
			strings.Join(args, ", "))
	}
}

// messages returns the messages of both packages in the order of their numbers.
func (s *schema) messages() (list []*decl) {
	for _, d := range s.all {
		if d.kind == "message" {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b *decl) int { return a.number - b.number })
	return list
}

// text returns the arguments of fmt.Sprintf by which the generated method String formats d, which is a message or a
// struct in a message. The format shows numbers, flags and strings, and the lengths of lists, slices and byte strings.
// prefix precedes the names of fields in the format, and m precedes them in the arguments. The format omits pointers,
// arrays and opaque types, so that String does not show the secret of a job.
func (g *generator) text(d *decl, prefix, m string) (format string, args []string) {
	for _, f := range d.fields {
		t := g.lookup(d.pkg, f.typ)
		for _, name := range f.names {
			verb, arg, x := "%v", m+name, strings.ToLower(prefix+name)
			_, length, isArray := elem(f.typ)
			switch {
			case f.typ == "string":
				verb = "%q"
			case isArray && length == "" && t == nil:
				verb, arg = "%d", "len("+arg+")"
			case f.typ == "frame.Values" || t != nil && t.kind == "list":
				verb, arg = "%d", arg+".Len()"
			case t != nil && len(t.fields) > 0:
				more, parts := g.text(t, x+".", m+name+".")
				format, args = format+more, append(args, parts...)
				continue
			case isArray || g.form(d.pkg, f) == "" || g.form(d.pkg, f) == "b32":
				continue
			}
			format, args = fmt.Sprintf("%s %s=%s", format, x, verb), append(args, arg)
		}
		if len(f.names) == 0 {
			more, parts := g.text(t, prefix, m)
			format, args = format+more, append(args, parts...)
		}
	}
	return format, args
}

// fuzz writes fuzz_gen_test.go: the fuzz target of a package, and the function view, by which the tests of the package
// compare lists.
func (g *generator) fuzz() {
	g.f(`// FuzzParse requires that each message has only one encoded form: a frame that can be decoded is encoded to the
// same bytes again. The seed corpus contains the samples of all messages.
func FuzzParse(f *testing.F) { suite().Fuzz(f) }

// view returns the elements of v if it is a list, and otherwise the result of showOpaque.
func view(v any) any {
	switch v := v.(type) {
	case frame.Values:
		return slices.Collect(v.All())
`)
	for _, d := range g.all {
		switch {
		case d.kind == "list" && d.pkg == g.pkg:
			g.f("case %s:\nreturn frametest.Elements(v)\n", d.name)
		case d.kind == "list" && g.pkg == "wire":
			g.f("case %s.%s:\nreturn frametest.Elements(v)\n", d.pkg, d.name)
		}
	}
	g.f("}\nreturn showOpaque(v)\n}\n")
}
