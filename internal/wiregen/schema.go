package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// schema is a parsed schema file.
type schema struct {
	All    []*decl          // in the order of the file
	byName map[string]*decl // keys are names as in the schema, and names with the package, such as "wire.Ready"
	err    error            // set by codec if a type or form is unknown
}

// decl is one declaration of the schema. Its Kind is its keyword, such as "message".
type decl struct {
	Kind, Name, pkg string
	file            string   // name of the generated file, without _gen.go
	Doc             []string // comment lines before the declaration
	Comment         string   // of a const: comment at the end of the line
	Number          int      // of a message
	Senders         []string // of a message: keys of the map senders
	Once            bool     // of a message: a sender must send it first, and only once
	Fields          []field  // of a list: one field, for its elements; of a scalar: one field, with its basic type
	Values          []value  // of an enum
	must            []string // Go expressions that must be true
	check           string   // name of the hand-written method that checks a decoded value, or empty
	Text            string   // of an opaque: its grammar; of a const: "=" and its value
	Encode, Decode  string   // Go statements that method codec returns
}

// field is one line between the braces of a declaration: one or more fields of the same type, with their limits.
type field struct {
	Names     []string // empty if the field is embedded
	Type      string
	limits    string   // text after the type
	low, high string   // Go expressions of the range of a number or a length; empty if there is no limit
	cut       string   // number of bytes after which the sender cuts the string, or empty
	Each, as  string   // check of elements and form that follow these words in the schema, or empty
	Before    []string // comment lines before the field
	Comment   string   // comment at the end of the line
}

// all returns the names of the fields. An embedded field has the name of its type, as in Go.
func (f field) all() []string {
	if len(f.Names) == 0 {
		return []string{base(f.Type)}
	}
	return f.Names
}

// value is a line of an enum: the number and the name of a value, and the comment at the end of the line.
type value struct{ Number, Name, Comment string }

// parse parses the text of a schema. It does not look for errors that the Go compiler finds in the generated code.
func parse(text string) (*schema, error) {
	s := &schema{byName: map[string]*decl{}}
	var doc []string
	var open *decl // the declaration whose lines follow; nil between declarations
	pkg, file := "", ""
	for number, line := range strings.Split(text, "\n") {
		code, comment, isComment := strings.Cut(line, "//")
		comment = strings.TrimSpace(comment)
		words := strings.Fields(code)
		var err error
		switch {
		case len(words) == 0 && isComment:
			doc = append(doc, comment)
			continue
		case len(words) == 0:
		case words[0] == "}":
			open = nil
		case open != nil:
			err = open.line(words, doc, comment)
		case words[0] == "package":
			pkg, file = words[1], ""
		case words[0] == "file":
			file = words[1]
		default:
			d := &decl{Kind: words[0], pkg: pkg, file: file, Doc: doc, Comment: comment}
			if last := len(words) - 1; words[last] == "{" {
				open, words = d, words[:last]
			}
			if err = d.head(words[1:]); err == nil {
				err = s.unused(d)
				s.All = append(s.All, d)
				s.byName[d.Name], s.byName[pkg+"."+d.Name] = d, d
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", schemaFile, number+1, err)
		}
		doc = nil
	}
	return s, nil
}

// unused returns an error if d is a message and an earlier message has its number.
func (s *schema) unused(d *decl) error {
	for _, o := range s.All {
		if d.Kind == "message" && o.Kind == "message" && o.Number == d.Number {
			return fmt.Errorf("%s and %s have the number %d", o.Name, d.Name, d.Number)
		}
	}
	return nil
}

// head parses the first line of a declaration. words are the words after its keyword.
func (d *decl) head(words []string) (err error) {
	need := map[string]int{
		"message": 3, "type": 1, "extern": 1, "enum": 1, "list": 2, "scalar": 2, "opaque": 2, "const": 3,
	}
	if n := need[d.Kind]; n == 0 || len(words) < n {
		return fmt.Errorf("invalid declaration of %q", d.Kind)
	}
	if d.Kind == "message" {
		if d.Number, err = strconv.Atoi(words[0]); err != nil || d.Number < 1 || d.Number > 255 {
			return fmt.Errorf("invalid number of a message: %s", words[0])
		}
		d.Senders, d.Once = strings.Split(words[2], ","), len(words) > 3 && words[3] == "once"
		for _, from := range d.Senders {
			if senders[from].pkg == "" {
				return fmt.Errorf("no sender %q", from)
			}
		}
		words = words[1:2]
	}
	d.Name, d.Text = words[0], strings.Join(words[1:], " ")
	if d.Kind == "list" || d.Kind == "scalar" {
		d.Fields = []field{{Names: []string{""}, Type: words[1]}}
		return d.Fields[0].limit(words[2:])
	}
	return nil
}

// line parses a line between the braces of a declaration. words are the words of the line, before are the comment lines
// above it, and comment is the comment at its end.
func (d *decl) line(words, before []string, comment string) (err error) {
	switch {
	case words[0] == "must":
		d.must = append(d.must, strings.Join(words[1:], " "))
	case words[0] == "check":
		d.check = words[1]
	case d.Kind == "enum" && len(words) != 2:
		return fmt.Errorf("invalid value of %s", d.Name)
	case d.Kind == "enum":
		d.Values = append(d.Values, value{words[0], words[1], comment})
	default:
		f := field{Before: before, Comment: comment}
		for more := true; more && len(words) > 1; words = words[1:] {
			more = strings.HasSuffix(words[0], ",")
			f.Names = append(f.Names, strings.TrimSuffix(words[0], ","))
		}
		f.Type = words[0]
		err = f.limit(words[1:])
		d.Fields = append(d.Fields, f)
	}
	return err
}

// limit parses the LIMITS of a field, which are the words after its type.
func (f *field) limit(words []string) error {
	f.limits = strings.Join(words, " ")
	for len(words) > 0 {
		if low, high, ok := strings.Cut(words[0], ".."); ok {
			f.low, f.high, words = low, high, words[1:]
			continue
		}
		into := map[string]*string{"cut": &f.cut, "each": &f.Each, "as": &f.as}[words[0]]
		if into == nil || len(words) < 2 {
			return fmt.Errorf("invalid limit %q", words[0])
		}
		*into, words = words[1], words[2:]
	}
	return nil
}

// Messages returns the messages of both packages in the order of their numbers.
func (s *schema) Messages() []*decl {
	list := slices.Clone(s.All)
	list = slices.DeleteFunc(list, func(d *decl) bool { return d.Kind != "message" })
	slices.SortFunc(list, func(a, b *decl) int { return a.Number - b.Number })
	return list
}

// lookup returns the declaration of the type typ, or nil for a basic type. A name without a package is a type of
// package pkg.
func (s *schema) lookup(pkg, typ string) *decl { return cmp.Or(s.byName[pkg+"."+typ], s.byName[typ]) }

// forms maps the names of forms in docs/dev/protocol.md to the methods of frame.Encoder and frame.Decoder that write
// and read them. The name "bytes" is used only here: the page calls that form "s". The argument of an Encoder's method
// and the result of a Decoder's method have the type typ.
var forms = map[string]struct{ method, typ string }{
	"b": {"Byte", "uint8"}, "flag": {"Bool", "bool"}, "u16": {"U16", "uint16"}, "u": {"U32", "uint32"},
	"u63": {"Sum", "uint64"}, "u64": {"U64", "uint64"}, "u+1": {"Next", "uint32"}, "t": {"Time", "time.Duration"},
	"s": {"Text", "string"}, "bytes": {"Bytes", "[]byte"},
}

// defaultForms maps a basic type to the name of the form in which it is encoded. A field with the limit "as FORM" uses
// that form instead.
var defaultForms = map[string]string{
	"uint8": "b", "bool": "flag", "uint16": "u16", "uint32": "u", "int32": "u", "uint64": "u63", "string": "s",
	"[]byte": "bytes",
}

// form returns the name of the form of a field, or "" if its type is an array, slice, struct, list or opaque. It also
// returns the field. If the type is a scalar or an enum, the returned field has the basic type and the limits of the
// scalar or enum. pkg is the package in which the field is declared.
func (s *schema) form(pkg string, f field) (string, field) {
	if d := s.lookup(pkg, f.Type); d != nil && d.Kind == "scalar" {
		f.Type, f.high = d.Fields[0].Type, cmp.Or(f.high, d.Fields[0].high)
	} else if d != nil && d.Kind == "enum" {
		f.Type, f.low, f.high = "uint8", d.Values[0].Name, d.Values[len(d.Values)-1].Name
	}
	return cmp.Or(f.as, defaultForms[f.Type]), f
}

// elem returns the type of the elements of the slice or array type typ, and the length of the array. The length is
// empty for a slice. ok is false if typ is neither a slice nor an array.
func elem(typ string) (of, length string, ok bool) {
	length, of, ok = strings.Cut(strings.TrimPrefix(typ, "["), "]")
	return of, length, ok && typ[0] == '['
}
