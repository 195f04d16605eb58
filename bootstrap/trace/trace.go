// Package trace formats events and effects of a core as lines of text, for the option --trace-events:
//
//	0.052174 event RankExited Rank=1 Status={Code=7}
//	0.052174 effect Send To=-1 Msg=Fault{What=1 Node=1 Nodes=1 Rank=1 Count=1 Status={Code=7} Host="b"}
//
// A line has the seconds since the agent started, the type, and its fields. A field is formatted only if its type or
// its name is listed here: numbers, enumerations and durations, and strings such as Host and Cause. Of other strings,
// of bytes and of lists a line has the length. A line therefore never contains values of the key-value store,
// addresses of ranks, environment variables, arguments, input, output or the job's secret, also if a message gets a
// new field. Fields that are zero are left out, except numbers of ranks, nodes and links, and words such as Barrier.
//
// The package is pure.
package trace

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// maxItems is the number of elements of a list that a line has.
const maxItems = 8

// texts are the names of string fields that are formatted.
var texts = []string{
	"Host", "FirstHost", "Parent", "Phase", "JobID", "Namespace", "Job", "State", // identifiers and states
	"Cause", "Trouble", "Refused", // error texts
}

// packages are the packages whose structs are formatted field by field.
var packages = []string{
	reflect.TypeFor[core.Frame]().PkgPath(), reflect.TypeFor[wire.Launch]().PkgPath(),
	reflect.TypeFor[rankwire.Hello]().PkgPath(),
}

// structs are the structs of other packages that are formatted field by field.
var structs = []reflect.Type{
	reflect.TypeFor[job.Node](), reflect.TypeFor[job.Part](), reflect.TypeFor[job.Status](),
	reflect.TypeFor[job.StatusRun](), reflect.TypeFor[job.Window](),
}

// numbered are the types whose zero is the number of something.
var numbered = []reflect.Type{
	reflect.TypeFor[core.Link](), reflect.TypeFor[job.NodeIndex](), reflect.TypeFor[job.Rank](),
	reflect.TypeFor[job.Slot](),
}

// Event appends the line of an event to dst. The time is that since the start of the agent.
func Event(dst []byte, now time.Duration, ev core.Event) []byte { return line(dst, now, "event", ev) }

// Effect appends the line of an effect to dst.
func Effect(dst []byte, now time.Duration, e core.Effect) []byte { return line(dst, now, "effect", e) }

func line(dst []byte, now time.Duration, kind string, v any) []byte {
	dst = fmt.Appendf(dst, "%.6f %s %s", now.Seconds(), kind, reflect.TypeOf(v).Name())
	return append(fields(dst, reflect.ValueOf(v)), '\n')
}

// fields appends the fields of a struct, each behind a blank.
func fields(dst []byte, v reflect.Value) []byte {
	if !listed(v.Type()) {
		return dst
	}
	for i := range v.NumField() {
		switch f, of := v.Field(i), v.Type().Field(i); {
		case !of.IsExported():
		case of.Anonymous && f.Kind() == reflect.Struct && listed(f.Type()):
			dst = fields(dst, f)
		default:
			if text := value(of.Name, f); len(text) > 0 {
				dst = append(append(append(append(dst, ' '), of.Name...), '='), text...)
			}
		}
	}
	return dst
}

// listed reports whether the fields of a type are formatted.
func listed(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && (slices.Contains(packages, t.PkgPath()) || slices.Contains(structs, t))
}

// value formats a field. It returns nothing if the field is left out.
func value(name string, v reflect.Value) []byte {
	switch {
	case v.IsZero() && !shownZero(v.Type()):
		return nil
	case v.CanInt() || v.CanUint() || v.Kind() == reflect.Bool:
		return fmt.Append(nil, v.Interface()) // by its method String, if it has one
	case v.Kind() == reflect.String && slices.Contains(texts, name):
		return strconv.AppendQuote(nil, v.String())
	case v.Kind() == reflect.String:
		return fmt.Appendf(nil, "<%d bytes>", v.Len())
	case v.Kind() == reflect.Slice:
		return list(v)
	case v.Kind() == reflect.Interface:
		return append(fmt.Append(nil, v.Elem().Type().Name()), braced(v.Elem())...)
	case v.Type() == reflect.TypeFor[*job.Job]():
		return strconv.AppendQuote(nil, v.Interface().(*job.Job).ID)
	}
	if packed, ok := v.Interface().(interface{ Len() int }); ok {
		return fmt.Appendf(nil, "<%d>", packed.Len())
	}
	return braced(v)
}

// shownZero reports whether the zero of a type means something.
func shownZero(t reflect.Type) bool {
	word := t.Kind() == reflect.Uint8 && t.Implements(reflect.TypeFor[fmt.Stringer]())
	return word || slices.Contains(numbered, t)
}

// braced formats a struct. It returns nothing if no field is formatted.
func braced(v reflect.Value) []byte {
	if text := fields(nil, v); len(text) > 0 {
		return append(append([]byte{'{'}, text[1:]...), '}')
	}
	return nil
}

// list formats the elements of a slice of structs, and the length of any other slice.
func list(v reflect.Value) []byte {
	switch {
	case v.Type().Elem().Kind() == reflect.Uint8:
		return fmt.Appendf(nil, "<%d bytes>", v.Len())
	case !listed(v.Type().Elem()):
		return fmt.Appendf(nil, "<%d>", v.Len())
	}
	text := []byte{'['}
	for i := range min(v.Len(), maxItems) {
		text = append(text, braced(v.Index(i))...)
	}
	if more := v.Len() - maxItems; more > 0 {
		text = fmt.Appendf(text, " and %d more", more)
	}
	return append(text, ']')
}
