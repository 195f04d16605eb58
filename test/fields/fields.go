// Package fields shows tests of codecs what their samples leave out: a field that is zero in every
// sample could be dropped from encoder and decoder, and the round trip would still pass. It reads
// values by reflection, and is for tests only.
package fields

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
)

// View shows what a value that keeps its contents in a form of its own has in it, as a value of
// exported structs and slices. It returns nil for all other values.
type View func(v any) any

// Zero lists the fields that are zero in all samples, sorted: "Launch.Job.Limits[].Soft". The
// elements of a slice count as one, those of an array each by its index. Fields without a name
// outside their package count too. A nil View shows nothing.
func Zero(view View, samples ...any) []string {
	set := map[string]bool{} // of each path: whether some sample has it
	for _, sample := range samples {
		v := reflect.ValueOf(sample)
		mark(view, set, v.Type().Name(), v)
	}
	maps.DeleteFunc(set, func(_ string, nonzero bool) bool { return nonzero })
	return slices.Sorted(maps.Keys(set))
}

func mark(view View, set map[string]bool, path string, v reflect.Value) {
	if shown := show(view, v); shown != nil {
		v = reflect.ValueOf(shown)
	}
	switch {
	case (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && !v.IsNil():
		set[path] = true
		mark(view, set, path, v.Elem())
	case v.Kind() == reflect.Struct && v.NumField() > 0:
		for i := range v.NumField() {
			mark(view, set, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case v.Kind() == reflect.Slice && v.Len() > 0 && v.Type().Elem().Kind() != reflect.Uint8:
		set[path] = true
		for i := range v.Len() {
			mark(view, set, path+"[]", v.Index(i))
		}
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			mark(view, set, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case v.Kind() != reflect.Struct:
		set[path] = set[path] || !v.IsZero() && (v.Kind() != reflect.Slice || v.Len() > 0)
	}
}

func show(view View, v reflect.Value) any {
	if view == nil || !v.CanInterface() {
		return nil
	}
	return view(v.Interface())
}

// Without yields copies of a sample, each with one of its fields set to zero, and the path of that
// field. A codec that mixes up two fields of one type, such as flags that are set both, cannot
// bring all of these back. Only exported fields are set.
func Without(sample any) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		v := reflect.ValueOf(sample)
		without(v.Type().Name(), v, func(path string, v reflect.Value) bool { return yield(path, v.Interface()) })
	}
}

// without calls yield for each copy, until it returns false.
func without(path string, v reflect.Value, yield func(string, reflect.Value) bool) bool {
	part := func(path string, part reflect.Value, put func(into, part reflect.Value)) bool {
		return without(path, part, func(path string, part reflect.Value) bool {
			changed := reflect.New(v.Type()).Elem()
			changed.Set(v)
			put(changed, part)
			return yield(path, changed)
		})
	}
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return part(path, v.Elem(), func(into, part reflect.Value) {
			into.Set(reflect.New(part.Type()))
			into.Elem().Set(part)
		})
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			put := func(into, part reflect.Value) { into.Field(i).Set(part) }
			if field.IsExported() && !part(path+"."+field.Name, v.Field(i), put) {
				return false
			}
		}
	case v.Kind() == reflect.Slice && v.Len() > 0 && v.Type().Elem().Kind() != reflect.Uint8:
		for i := range v.Len() {
			put := func(into, part reflect.Value) {
				into.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v))
				into.Index(i).Set(part)
			}
			if !part(fmt.Sprintf("%s[%d]", path, i), v.Index(i), put) {
				return false
			}
		}
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			put := func(into, part reflect.Value) { into.Index(i).Set(part) }
			if !part(fmt.Sprintf("%s[%d]", path, i), v.Index(i), put) {
				return false
			}
		}
	case !v.IsZero():
		return yield(path, reflect.Zero(v.Type()))
	}
	return true
}
