package main

import (
	"regexp"
	"strings"
)

// Sent returns the senders of a message in the words of docs/dev/protocol.md.
func (d *decl) Sent() string { return directions.Replace(strings.Join(d.Senders, ",")) }

// directions replaces the words for senders in the schema by the words of docs/dev/protocol.md.
var directions = strings.NewReplacer("agent", "to a rank", "rank", "from a rank", "root", "between roots", ",", ", ")

// Grammar returns the fields of a declaration in the notation of docs/dev/protocol.md, such as "Rank:u Key:s".
func (s *schema) Grammar(d *decl) string {
	var fields []string
	for _, f := range d.Fields {
		for _, name := range f.all() {
			fields = append(fields, name+":"+s.notation(d.pkg, f))
		}
	}
	return strings.Join(fields, " ")
}

// notation returns the type of a field in the notation of docs/dev/protocol.md, such as "u" or "Parcel*". pkg is the
// package in which the field is declared.
func (s *schema) notation(pkg string, f field) string {
	name, basic := s.form(pkg, f)
	of, length, isArray := elem(basic.Type)
	switch d := s.lookup(pkg, f.Type); {
	case name == "bytes":
		return "s"
	case isArray && (d == nil || d.Kind == "scalar"):
		return s.notation(pkg, field{Type: of, as: f.as}) + "*" + length
	case d != nil && d.Kind == "list":
		return s.notation(d.pkg, d.Fields[0]) + "*"
	case d != nil && d.Inline():
		return d.Text
	case name != "" && (d == nil || d.Kind != "enum"):
		return name
	}
	return strings.TrimPrefix(strings.TrimPrefix(f.Type, "*"), "rankwire.")
}

// Inline reports whether d is an opaque type whose grammar the tables show in each field of the type. The grammar of
// any other opaque type has a row of its own.
func (d *decl) Inline() bool { return d.Kind == "opaque" && (d.Text[0] == 's' || d.Text[0] == '(') }

// receiver matches the variable m and the dot after it in a condition such as "m.Code == 0".
var receiver = regexp.MustCompile(`\bm\.`)

// Conditions returns the text of the column "conditions": the limits of the fields of d, its conditions, and the name
// of its check method.
func (d *decl) Conditions() string {
	var list []string
	for _, f := range d.Fields {
		if f.limits != "" {
			list = append(list, strings.Join(f.Names, ", ")+": "+f.limits)
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
