package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// schema is a parsed schema file.
type schema struct {
	all    []*decl          // in the order of the file
	byName map[string]*decl // keys are Go names with the package, such as "job.Slot"; constants have no package
}

// decl is one declaration of the schema. Its kind is its keyword, such as "message".
type decl struct {
	kind, pkg, name string
	file            string   // name of the generated file, without _gen.go
	doc             []string // comment lines before the declaration
	comment         string   // of a const: comment at the end of the line
	number          int      // of a message
	senders         []string // of a message: keys of the map senders
	once            bool     // of a message: it is the first one of its sender, and a second one is refused
	fields          []field
	must            []string // Go expressions that must be true
	check           string   // name of the hand-written method that checks a decoded value, or empty
	elem            field    // of a list: type and limits of its elements; of a scalar: its basic type and limits
	values          []value  // of an enum
	least           int      // minimum size of an opaque in encoded form, in bytes
	text            string   // of an opaque: its grammar; of a const: its value
}

// field is one line between the braces of a declaration: one or more fields of the same type, with their limits.
type field struct {
	names     []string // empty if the field is embedded
	typ       string
	low, high string   // Go expressions of the range of a number or a length; empty if there is no limit
	cut, size string   // limits in bytes that follow these words in the schema, or empty
	each, as  string   // check of elements and form that follow these words in the schema, or empty
	before    []string // comment lines before the field
	comment   string   // comment at the end of the line
}

// all returns the names of the fields. An embedded field has the name of its type, as in Go.
func (f field) all() []string {
	if len(f.names) == 0 {
		return []string{base(f.typ)}
	}
	return f.names
}

// value is a line of an enum: the number and the name of a value, and the comment at the end of the line.
type value struct{ number, name, comment string }

// parse parses the text of a schema. It checks that all types and forms are declared.
func parse(text string) (*schema, error) {
	s := &schema{byName: map[string]*decl{}}
	var doc []string
	var open *decl // the declaration whose lines follow; nil between declarations
	pkg, file := "", ""
	for number, line := range strings.Split(text, "\n") {
		code, comment, _ := strings.Cut(line, "//")
		comment = strings.TrimSpace(comment)
		words := strings.Fields(code)
		var err error
		switch {
		case len(words) == 0 && strings.Contains(line, "//"):
			doc = append(doc, comment)
			continue
		case len(words) == 0:
		case words[0] == "}" && open != nil:
			open = nil
		case open != nil:
			err = open.line(words, doc, comment)
		case words[0] == "package":
			pkg, file = words[1], ""
		case words[0] == "file":
			file = words[1]
		default:
			d := &decl{kind: words[0], pkg: pkg, file: file, doc: doc, comment: comment}
			if err = d.head(words[1:]); err == nil {
				err = s.add(d)
			}
			if words[len(words)-1] == "{" {
				open = d
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", schemaFile, number+1, err)
		}
		doc = nil
	}
	if open != nil {
		return nil, fmt.Errorf("%s: %s has no end", schemaFile, open.name)
	}
	for _, d := range s.all {
		for _, f := range append(d.fields, d.elem) {
			if f.typ != "" && !s.known(d.pkg, f.typ) {
				return nil, fmt.Errorf("%s: %s: no type %s", schemaFile, d.name, f.typ)
			}
			if _, ok := forms[f.as]; f.as != "" && !ok {
				return nil, fmt.Errorf("%s: %s: no form %s", schemaFile, d.name, f.as)
			}
		}
	}
	return s, nil
}

// known reports whether the type typ is built in or declared. A name without a package is a type of package pkg.
func (s *schema) known(pkg, typ string) bool {
	of, _, isArray := elem(typ)
	return s.lookup(pkg, typ) != nil || usual[typ] != "" || typ == "string" || typ == "[]byte" || typ == "frame.Values" ||
		typ[0] == '*' && s.known(pkg, typ[1:]) || isArray && s.known(pkg, of)
}

// add appends d to the schema. It returns an error if the name or the message number of d is already in use.
func (s *schema) add(d *decl) error {
	name := d.name
	if !strings.Contains(name, ".") && d.kind != "const" {
		name = d.pkg + "." + name
	}
	if s.byName[name] != nil {
		return fmt.Errorf("%s is declared twice", name)
	}
	for _, o := range s.all {
		if d.kind == "message" && o.kind == "message" && o.number == d.number {
			return fmt.Errorf("%s and %s have the number %d", o.name, d.name, d.number)
		}
	}
	s.byName[name] = d
	s.all = append(s.all, d)
	return nil
}

// head parses the first line of a declaration. words are the words after its keyword.
func (d *decl) head(words []string) (err error) {
	words = strings.Fields(strings.TrimSuffix(strings.Join(words, " "), "{"))
	need := map[string]int{
		"message": 3, "type": 1, "extern": 1, "enum": 1, "list": 2, "scalar": 2, "opaque": 3, "const": 3,
	}
	n := need[d.kind]
	if n == 0 || len(words) < n {
		return fmt.Errorf("invalid declaration of %q", d.kind)
	}
	d.name = words[0]
	switch d.kind {
	case "message":
		d.name, d.senders = words[1], strings.Split(words[2], ",")
		if d.number, err = strconv.Atoi(words[0]); err != nil || d.number < 1 || d.number > 255 {
			return fmt.Errorf("invalid number of a message: %s", words[0])
		}
		for _, from := range d.senders {
			if senders[from] == "" {
				return fmt.Errorf("no sender %q", from)
			}
		}
		d.once = len(words) > 3 && words[3] == "once"
	case "list", "scalar":
		d.elem.typ = words[1]
		return d.elem.limit(words[2:])
	case "opaque":
		d.text = strings.Join(words[2:], " ")
		d.least, err = strconv.Atoi(words[1])
	case "const": // NAME = VALUE
		d.text = strings.Join(words[2:], " ")
	}
	return err
}

// line parses a line between the braces of a declaration. words are the words of the line, before are the comment lines
// above it, and comment is the comment at its end.
func (d *decl) line(words, before []string, comment string) error {
	switch {
	case words[0] == "must":
		d.must = append(d.must, strings.Join(words[1:], " "))
		return nil
	case words[0] == "check":
		d.check = words[1]
		return nil
	case d.kind == "enum":
		if len(words) != 2 {
			return fmt.Errorf("invalid value of %s", d.name)
		}
		d.values = append(d.values, value{words[0], words[1], comment})
		return nil
	}
	f := field{before: before, comment: comment}
	if len(words) == 1 {
		f.typ = words[0]
		d.fields = append(d.fields, f)
		return nil
	}
	for more := true; more && len(words) > 1; words = words[1:] {
		more = strings.HasSuffix(words[0], ",")
		f.names = append(f.names, strings.TrimSuffix(words[0], ","))
	}
	f.typ = words[0]
	err := f.limit(words[1:])
	d.fields = append(d.fields, f)
	return err
}

// limit parses the LIMITS of a field, which are the words after its type.
func (f *field) limit(words []string) error {
	for len(words) > 0 {
		if low, high, ok := strings.Cut(words[0], ".."); ok {
			f.low, f.high, words = low, high, words[1:]
			continue
		}
		into := map[string]*string{"cut": &f.cut, "size": &f.size, "each": &f.each, "as": &f.as}[words[0]]
		if into == nil || len(words) < 2 {
			return fmt.Errorf("invalid limit %q", words[0])
		}
		*into, words = words[1], words[2:]
	}
	return nil
}

// lookup returns the declaration of the type typ, or nil for a built-in type. A name without a package is a type of
// package pkg.
func (s *schema) lookup(pkg, typ string) *decl {
	if d := s.byName[typ]; d != nil {
		return d
	}
	return s.byName[pkg+"."+typ]
}

// form is an encoding of a basic type. frame.Encoder and frame.Decoder have a method with the name method for it. The
// argument of the former method and the result of the latter have the type typ.
type form struct{ method, typ string }

// forms maps the names of forms in docs/dev/protocol.md to the forms.
var forms = map[string]form{
	"b": {"Byte", "uint8"}, "flag": {"Bool", "bool"}, "u16": {"U16", "uint16"}, "u": {"U32", "uint32"},
	"u63": {"Sum", "uint64"}, "u64": {"U64", "uint64"}, "u+1": {"Next", "uint32"}, "t": {"Time", "time.Duration"},
}

// usual maps a basic type to the name of the form in which it is encoded, unless the field has the limit "as FORM".
var usual = map[string]string{
	"uint8": "b", "bool": "flag", "uint16": "u16", "uint32": "u", "int32": "u", "uint64": "u63", "[32]byte": "b32",
}

// form returns the name of the form of a field, or "" if its type is a struct, list, slice, string or opaque. pkg is
// the package in which the field is declared.
func (s *schema) form(pkg string, f field) string {
	typ := f.typ
	if d := s.lookup(pkg, typ); d != nil {
		typ = map[string]string{"enum": "uint8", "scalar": d.elem.typ}[d.kind]
	}
	return cmp.Or(f.as, usual[typ])
}

// elem returns the type of the elements of the slice or array type typ, and the length of the array. The length is
// empty for a slice. ok is false if typ is neither a slice nor an array.
func elem(typ string) (of, length string, ok bool) {
	length, of, ok = strings.Cut(strings.TrimPrefix(typ, "["), "]")
	return of, length, ok && typ[0] == '['
}
