// Package trace formats events and effects of a core as lines of text, for the option --trace-events:
//
//	0.052174 event RankExited Rank=1 Status={Code=7}
//	0.052174 effect Send To=-1 Msg=Fault{What=1 Node=1 Nodes=1 Rank=1 Count=1 Status={Code=7} Host="b"}
//
// A line has the seconds since the agent started, the kind of line, the name of the Go type, and the fields of the
// value. Integers, booleans, enumerations and durations are written with their values, and so are the strings whose
// field names are in the variable texts, such as Host and Cause. A slice of structs from the packages of messages and
// events is written with its first 8 elements. Other strings, byte slices and lists are replaced by their length, and
// a job by its ID. Maps, arrays, pointers, floats and structs of other packages are left out. So a line contains no
// value of the key-value store, address of a rank, environment variable, argument, input, output or secret, even if a
// field is added to a message. An error text can contain the name of a program and the text of MPI_Abort.
//
// A field that is zero is left out, unless it identifies a rank, a node or a link, or its type is an enumeration with
// names, such as Barrier.
//
// The package performs no I/O and reads no clock.
package trace

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// maxItems is the maximum number of elements that are written for a slice of structs.
const maxItems = 8

// texts lists the names of the string fields whose values are written to a trace, in any struct.
var texts = []string{
	"Host", "FirstHost", "Parent", "Phase", "JobID", "Namespace", "Job", "State", // identifiers and states
	"Cause", "Trouble", "Refused", // error texts
}

// packages lists the import paths of the packages whose structs are written field by field.
var packages = []string{
	reflect.TypeFor[core.Frame]().PkgPath(), reflect.TypeFor[wire.Launch]().PkgPath(),
	reflect.TypeFor[rankwire.Hello]().PkgPath(), reflect.TypeFor[core.Send]().PkgPath(), reflect.TypeFor[flow.DaemonsAsked]().PkgPath(),
}

// structs lists the structs of further packages that are written field by field.
var structs = []reflect.Type{
	reflect.TypeFor[job.Node](), reflect.TypeFor[job.Part](), reflect.TypeFor[job.Status](),
	reflect.TypeFor[job.StatusRun](), reflect.TypeFor[job.Window](),
}

// numbered lists the integer types whose value 0 identifies the first link, node, rank or slot, and is always written.
var numbered = []reflect.Type{
	reflect.TypeFor[core.Link](), reflect.TypeFor[job.NodeIndex](), reflect.TypeFor[job.Rank](),
	reflect.TypeFor[job.Slot](),
}

// Event appends a line for ev to dst and returns the extended slice. now is the time since the start of the agent.
func Event(dst []byte, now time.Duration, ev core.Event) []byte { return line(dst, now, "event", ev) }

// Effect appends a line for e to dst and returns the extended slice. now is the time since the start of the agent.
func Effect(dst []byte, now time.Duration, e core.Effect) []byte { return line(dst, now, "effect", e) }

func line(dst []byte, now time.Duration, kind string, v any) []byte {
	dst = fmt.Appendf(dst, "%.6f %s %s", now.Seconds(), kind, reflect.TypeOf(v).Name())
	return append(fields(dst, reflect.ValueOf(v)), '\n')
}

// fields appends " name=value" to dst for each exported field of the struct v for which value returns a text.
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

// listed reports whether t is a struct that is written field by field.
func listed(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && (slices.Contains(packages, t.PkgPath()) || slices.Contains(structs, t))
}

// value returns the text of the field v with the given name, or nil if the field must not be written.
func value(name string, v reflect.Value) []byte {
	switch {
	case v.IsZero() && !shownZero(v.Type()):
		return nil
	case v.CanInt() || v.CanUint() || v.Kind() == reflect.Bool:
		return fmt.Append(nil, v.Interface()) // calls the method String, if there is one
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

// shownZero reports whether a field of type t is written even if it is zero.
func shownZero(t reflect.Type) bool {
	word := t.Kind() == reflect.Uint8 && t.Implements(reflect.TypeFor[fmt.Stringer]())
	return word || slices.Contains(numbered, t)
}

// braced returns the fields of the struct v in braces, or nil if all fields are left out.
func braced(v reflect.Value) []byte {
	if text := fields(nil, v); len(text) > 0 {
		return append(append([]byte{'{'}, text[1:]...), '}')
	}
	return nil
}

// list returns the first maxItems elements of a slice of listed structs, and the length of any other slice.
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
