package show

import (
	"encoding/json"
	"fmt"
	"reflect"

	"ibrun/topo"
)

// JSON returns m as a JSON object in one line, with the fields of topo.Machine. Empty lists are [] and not null.
// It fails if Quota, Load or a Rate is infinite or not a number.
func JSON(m *topo.Machine) ([]byte, error) {
	b, err := json.Marshal(filled(reflect.ValueOf(*m)).Interface())
	if err != nil {
		return nil, fmt.Errorf("machine as JSON: %w", err)
	}
	return b, nil
}

// filled returns a copy of a value in which no slice is nil.
func filled(from reflect.Value) reflect.Value {
	to := reflect.New(from.Type()).Elem()
	to.Set(from)
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			if from.Type().Field(i).IsExported() {
				to.Field(i).Set(filled(from.Field(i)))
			}
		}
	case reflect.Slice:
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			to.Index(i).Set(filled(from.Index(i)))
		}
	}
	return to
}
