package main

import (
	"fmt"
	"regexp"
	"strings"
)

// directions replaces the words for senders in the schema by the words in the column "sent" of docs/dev/protocol.md.
var directions = strings.NewReplacer("agent", "to a rank", "rank", "from a rank", "root", "between roots", ",", ", ")

// tables returns the generated tables of docs/dev/protocol.md: messages, structs and opaque types, enumerations, and
// limits.
func (s *schema) tables() string {
	var b strings.Builder
	row := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	head := func(cells ...string) {
		b.WriteString("\n")
		row(cells...)
		b.WriteString(strings.Repeat("| --- ", len(cells)) + "|\n")
	}
	head("kind", "name", "sent", "payload", "conditions")
	for _, d := range s.messages() {
		row(fmt.Sprint(d.number), d.name, directions.Replace(strings.Join(d.senders, ",")), s.grammar(d), conditions(d))
	}
	head("part", "fields", "conditions")
	for _, d := range s.all {
		switch d.kind {
		case "type", "extern":
			row(d.name, s.grammar(d), conditions(d))
		case "opaque":
			if !d.inline() {
				row(d.name, d.text, strings.Join(d.doc, " "))
			}
		}
	}
	head("enumeration", "values")
	for _, d := range s.all {
		if d.kind == "enum" {
			var values []string
			for _, v := range d.values {
				values = append(values, v.number+" "+v.name)
			}
			row(d.name, strings.Join(values, ", "))
		}
	}
	head("limit", "value", "meaning")
	for _, d := range s.all {
		if d.kind == "const" {
			row(d.name, "`"+d.text+"`", d.comment)
		}
	}
	return b.String() + "\n"
}

// grammar returns the fields of a declaration in the notation of docs/dev/protocol.md, such as "Rank:u Key:s".
func (s *schema) grammar(d *decl) string {
	var fields []string
	for _, f := range d.fields {
		for _, name := range f.all() {
			fields = append(fields, name+":"+s.notation(d.pkg, f))
		}
	}
	return strings.Join(fields, " ")
}

// notation returns the type of a field in the notation of docs/dev/protocol.md, such as "u" or "Parcel*". pkg is the
// package in which the field is declared.
func (s *schema) notation(pkg string, f field) string {
	of, length, isArray := elem(f.typ)
	switch d := s.lookup(pkg, f.typ); {
	case f.typ == "string" || f.typ == "[]byte":
		return "s"
	case f.typ == "frame.Values":
		return "s*"
	case isArray && d == nil && s.form(pkg, f) != "b32":
		return s.notation(pkg, field{typ: of, as: f.as}) + "*" + length
	case d != nil && d.kind == "list":
		return s.notation(d.pkg, d.elem) + "*"
	case d != nil && d.inline():
		return d.text
	case s.form(pkg, f) != "" && (d == nil || d.kind != "enum"):
		return s.form(pkg, f)
	}
	return strings.TrimPrefix(strings.TrimPrefix(f.typ, "*"), "rankwire.")
}

// inline reports whether d is an opaque type whose grammar the tables show in each field of the type. The grammar of
// any other opaque type has a row of its own.
func (d *decl) inline() bool { return d.kind == "opaque" && (d.text == "s" || d.text[0] == '(') }

// receiver matches the variable m and the dot after it in a condition such as "m.Code == 0".
var receiver = regexp.MustCompile(`\bm\.`)

// conditions returns the text of the column "conditions": the limits of the fields of d, its conditions, and the name
// of its check method.
func conditions(d *decl) string {
	var list []string
	for _, f := range d.fields {
		names := strings.Join(f.names, ", ")
		if f.low != "" || f.high != "" {
			list = append(list, fmt.Sprintf("%s: %s..%s", names, f.low, f.high))
		}
		for _, l := range []struct{ words, limit string }{
			{"cut after %s bytes", f.cut}, {"at most %s bytes", f.size}, {"checked by %s", f.each},
		} {
			if l.limit != "" {
				list = append(list, names+": "+fmt.Sprintf(l.words, l.limit))
			}
		}
	}
	for _, must := range d.must {
		list = append(list, "`"+strings.ReplaceAll(receiver.ReplaceAllString(must, ""), "|", `\|`)+"`")
	}
	if d.check != "" {
		list = append(list, "method "+d.check)
	}
	return strings.Join(list, "; ")
}
