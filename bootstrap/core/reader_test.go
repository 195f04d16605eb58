package core

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"ibrun/fabric"
	"ibrun/internal/job"
)

// reader reads the fields of a line.
type reader struct {
	rest string
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	r.rest = ""
}

// fields fills a struct, to the end of the line or of the brace.
func (r *reader) fields(v reflect.Value) {
	for r.rest = strings.TrimLeft(r.rest, " "); r.rest != "" && r.rest[0] != '}'; r.rest = strings.TrimLeft(r.rest, " ") {
		end := strings.IndexAny(r.rest, " =}]")
		if end < 0 {
			end = len(r.rest)
		}
		name := r.rest[:end]
		r.rest = r.rest[end:]
		f := v.FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
		value, given := strings.CutPrefix(r.rest, "=")
		switch r.rest = value; {
		case v.Type() == reflect.TypeFor[job.Tally]() && given:
			r.count(v, name)
		case !f.IsValid():
			r.fail("%v has no %q", v.Type(), name)
		case given:
			r.value(f)
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		default:
			r.fail("%q has no value", name)
		}
	}
}

// count reads one of a Tally's sums.
func (r *reader) count(v reflect.Value, name string) {
	i := slices.Index(job.CountNames[:], name)
	if i < 0 {
		r.fail("nothing counts %q", name)
		return
	}
	r.value(v.FieldByName("Sum").Index(i))
}

// value reads one value of any type.
func (r *reader) value(v reflect.Value) {
	scalar := v.Kind() != reflect.Struct || slices.Contains([]reflect.Type{
		reflect.TypeFor[job.Status](), reflect.TypeFor[job.StatusRun](), reflect.TypeFor[fabric.Tuple](), reflect.TypeFor[job.Nodes](),
		reflect.TypeFor[job.Layout](),
	}, v.Type())
	p, list := packed[v.Type()]
	switch {
	case list:
		s := reflect.New(p.slice).Elem()
		r.value(s)
		v.Set(p.pack(s))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.value(v.Elem())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		r.bracket('[')
		for r.rest = strings.TrimLeft(r.rest, " "); r.rest != "" && r.rest[0] != ']'; r.rest = strings.TrimLeft(r.rest, " ") {
			e := reflect.New(v.Type().Elem()).Elem()
			r.value(e)
			v.Set(reflect.Append(v, e))
		}
		r.bracket(']')
	case !scalar:
		r.bracket('{')
		r.fields(v)
		r.bracket('}')
	default:
		if err := setScalar(v, r.scalar()); err != nil {
			r.fail("%w", err)
		}
	}
}

func (r *reader) bracket(b byte) {
	if r.rest == "" || r.rest[0] != b {
		r.fail("%q does not begin with %c", r.rest, b)
		return
	}
	r.rest = r.rest[1:]
}

func (r *reader) scalar() string {
	if quoted, err := strconv.QuotedPrefix(r.rest); err == nil {
		r.rest = r.rest[len(quoted):]
		text, _ := strconv.Unquote(quoted)
		return text
	}
	end := strings.IndexAny(r.rest, " ]}")
	if end < 0 {
		end = len(r.rest)
	}
	text := r.rest[:end]
	r.rest = r.rest[end:]
	return text
}

func setScalar(v reflect.Value, text string) (err error) {
	switch x := v.Addr().Interface().(type) {
	case *[]byte:
		*x, err = readBytes(text)
		return err
	case *string:
		b, err := readBytes(text)
		*x = string(b)
		return err
	case *job.Status:
		*x, err = readStatus(text)
		return err
	case *job.StatusRun:
		where, status, _ := strings.Cut(text, ":")
		if _, err = fmt.Sscanf(where, "%d+%d", &x.First, &x.Count); err == nil {
			x.Status, err = readStatus(status)
		}
		return err
	case *fabric.Tuple:
		at, err := netip.ParseAddrPort(text)
		*x = fabric.Ethernet(at)
		return err
	case *job.Nodes:
		*x, err = readNodes(text)
		return err
	case *job.Layout:
		var shares []job.Share
		for share := range strings.SplitSeq(text, ",") {
			var s job.Share
			if _, err = fmt.Sscanf(share, "%dx%d", &s.Nodes, &s.Ranks); err != nil {
				return err
			}
			shares = append(shares, s)
		}
		*x = job.NewLayout(shares)
		return nil
	case *Link:
		if *x = Up; text == "up" {
			return nil
		}
	}
	if i := slices.Index(words[v.Type()], text); i >= 0 {
		v.SetUint(uint64(i))
		return nil
	}
	if text == "everyone" {
		text = "4294967295"
	}
	_, err = fmt.Sscan(text, v.Addr().Interface())
	return err
}

// readNodes reads n2 or n2..n4, nodes of one rank each in a job of such nodes.
func readNodes(text string) (job.Nodes, error) {
	first, last, several := strings.Cut(text, "..")
	if !several {
		last = first
	}
	var lo, hi uint32
	if _, err := fmt.Sscanf(first+" "+last, "n%d n%d", &lo, &hi); err != nil {
		return job.Nodes{}, err
	}
	return job.NewNodes(job.Slot(lo), []job.Run{{Prefix: "n", Width: 1, Lo: uint64(lo), Count: hi - lo + 1, Ranks: 1}}), nil
}

func readBytes(text string) ([]byte, error) {
	if strings.HasPrefix(text, "@") {
		return readBlock(text)
	}
	if n, zeros := strings.CutPrefix(text, "#"); zeros {
		size, err := strconv.Atoi(n)
		return make([]byte, size), err
	}
	return []byte(text), nil
}

func readStatus(text string) (s job.Status, err error) {
	kind, code, _ := strings.Cut(text, ":")
	i := slices.Index(words[reflect.TypeOf(s.Kind)], kind)
	if i < 0 {
		return s, fmt.Errorf("%q is no status", text)
	}
	s.Kind = job.StatusKind(i)
	if code != "" {
		_, err = fmt.Sscan(code, &s.Code)
	}
	return s, err
}
