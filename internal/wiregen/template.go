package main

import (
	"strings"
	"text/template"
)

// execute returns the output of the template with the given name for data. It panics if the template fails, which is a
// defect of the template.
func execute(name string, data any) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err)
	}
	return b.String()
}

// templates contains one template for each kind of declaration, such as "message". Such a template writes the Go code
// of a declaration. The template "vocabulary" writes the Vocabulary of a package, and "tables" writes the tables of
// docs/dev/protocol.md.
var templates = template.Must(template.New("").Funcs(template.FuncMap{"base": base, "join": strings.Join}).Parse(`
{{define "scalar"}}{{end}}{{define "opaque"}}{{end}}

{{define "doc"}}{{range .}}// {{.}}
{{end}}{{end}}

{{define "const"}}
const {{.Name}} {{.Text}} // {{.Comment}}
{{end}}

{{define "enum"}}
{{template "doc" .Doc}}type {{.Name}} uint8

const (
{{range .Values}}{{.Name}} {{$.Name}} = {{.Number}} // {{.Comment}}
{{end}})
{{end}}

{{define "type"}}
{{template "doc" .Doc}}type {{.Name}} struct {
{{range .Fields}}{{template "doc" .Before}}{{join .Names ", "}} {{.Type}}{{if .Comment}} // {{.Comment}}{{end}}
{{end}}}

func (m {{.Name}}) Encode(w *frame.Encoder) {
{{.Encode}}}

func (m *{{.Name}}) Decode(r *frame.Decoder) {
{{.Decode}}}
{{end}}

{{define "message"}}{{template "type" .}}
// Kind{{.Name}} is the kind of {{.Name}} messages.
const Kind{{.Name}} frame.Kind = {{.Number}}

// Parse{{.Name}} reads a message of the kind Kind{{.Name}} from r. If it fails, r.Err returns the error.
func Parse{{.Name}}(r *frame.Decoder) frame.Message {
var m {{.Name}}
m.Decode(r)
return m
}

func ({{.Name}}) Kind() frame.Kind { return Kind{{.Name}} }

func ({{.Name}}) String() string { return "{{.Name}}" }
{{end}}

{{define "extern"}}
// Encode{{base .Name}} appends the encoded form of m to w.
func Encode{{base .Name}}(w *frame.Encoder, m *{{.Name}}) {
{{.Encode}}}

// Decode{{base .Name}} reads m from r. If it fails, r.Err returns the error.
func Decode{{base .Name}}(r *frame.Decoder, m *{{.Name}}) {
{{.Decode}}}
{{end}}

{{define "list"}}{{$elem := index .Fields 0}}
{{template "doc" .Doc}}type {{.Name}} = frame.List[{{$elem.Type}}, {{.Name}}Codec]

// {{.Name}}Codec encodes and decodes elements of {{.Name}}.
type {{.Name}}Codec struct{}

func ({{.Name}}Codec) Encode(w *frame.Encoder, m {{$elem.Type}}) {
{{.Encode}}}

func ({{.Name}}Codec) Decode(r *frame.Decoder) (m {{$elem.Type}}) {
{{.Decode}}return m
}

// New{{.Name}} returns a list of the given elements.
func New{{.Name}}(list ...{{$elem.Type}}) {{.Name}} {
return frame.NewList[{{$elem.Type}}, {{.Name}}Codec](list...)
}

// Encode{{.Name}} appends the encoded form of m to w.
func Encode{{.Name}}(w *frame.Encoder, m *{{.Name}}) { m.Encode(w) }

// Decode{{.Name}} reads m from r and checks its elements. If it fails, r.Err returns the error.
func Decode{{.Name}}(r *frame.Decoder, m *{{.Name}}) {
*m = frame.DecodeList[{{$elem.Type}}, {{.Name}}Codec](r, {{or $elem.Each "nil"}})
}
{{end}}

{{define "vocabulary"}}
// Vocabulary contains the kinds of messages that {{if eq .Package "wire" -}}
agents send to each other, with those that they relay for ranks.
{{- else}}a rank and its agent send to each other.{{end}}
var Vocabulary = frame.Vocabulary{
{{range .Messages}}{{$from := .From $.Package}}{{if $from}}{{$of := .Qualifier $.Package -}}
{{$of}}Kind{{.Name}}: {Name: "{{.Name}}", From: {{$from}}, Parse: {{$of}}Parse{{.Name}}, Once: {{.Once}}},
{{end}}{{end}}}
{{end}}

{{define "tables"}}
| kind | name | sent | payload | conditions |
| --- | --- | --- | --- | --- |
{{range .Messages}}| {{.Number}} | {{.Name}} | {{.Sent}} | {{$.Grammar .}} | {{.Conditions}} |
{{end}}
| part | fields | conditions |
| --- | --- | --- |
{{range .All}}{{if or (eq .Kind "type") (eq .Kind "extern") -}}
| {{.Name}} | {{$.Grammar .}} | {{.Conditions}} |
{{else if and (eq .Kind "opaque") (not .Inline) -}}
| {{.Name}} | {{.Text}} | {{join .Doc " "}} |
{{end}}{{end}}
| enumeration | values |
| --- | --- |
{{range .All}}{{if eq .Kind "enum" -}}
| {{.Name}} | {{range $i, $v := .Values}}{{if $i}}, {{end}}{{.Number}} {{.Name}}{{end}} |
{{end}}{{end}}
| limit | value | meaning |
| --- | --- | --- |
{{range .All}}{{if eq .Kind "const" -}}
| {{.Name}} | ` + "`{{slice .Text 2}}`" + ` | {{.Comment}} |
{{end}}{{end}}
{{end}}`))
