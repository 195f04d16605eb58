package frametest

import (
	"encoding/binary"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/frame"
	"ibrun/test/fields"
)

// Protocol decodes all samples by the tables of file, which is docs/dev/protocol.md. It checks that the tables list the
// fields of each message with their names and types, in the order of the frame, and no other fields. It also checks
// that the tables and the vocabulary have the same kinds, with the same numbers and senders. The map lengths has the
// values of the constants that the page uses as lengths of arrays.
func (s Suite) Protocol(t *testing.T, file string, lengths map[string]int) {
	page := readPage(t, file, s.View, lengths)
	for row, from := range page.senders {
		require.NotZero(t, from, "who sends %s?", row)
		number, _ := strconv.Atoi(strings.Fields(row)[0])
		kind := frame.Kind(number)
		require.Equal(t, from&s.Speakers, s.Vocabulary.Format(kind).From, "who sends %s?", row)
		if from&s.Speakers != 0 {
			require.Equal(t, row, rowOf(kind, s.Vocabulary))
		}
	}
	for number, format := range s.Vocabulary {
		row := rowOf(frame.Kind(number), s.Vocabulary)
		require.True(t, format.Parse == nil || page.senders[row] != 0, "the page lacks kind %s", row)
	}
	for _, m := range s.Samples {
		row := rowOf(m.Kind(), s.Vocabulary)
		require.NoError(t, page.describes(row, m), row)
		for path, changed := range s.without(m) {
			require.NoError(t, page.describes(row, changed), "%s without %s", row, path)
		}
	}
}

// rowOf is how the row of a kind begins: "1 Launch".
func rowOf(k frame.Kind, known frame.Vocabulary) string {
	return fmt.Sprintf("%d %s", k, known.Name(k))
}

// senders are the words of the page that say who sends a kind.
var senders = map[string]frame.Sender{
	"down": frame.Parent, "up": frame.Child, "from a rank": frame.Rank, "to a rank": frame.Agent,
	"between roots": frame.Root,
}

// field is one of the page: its name, and a type's name or the fields of a group.
type field struct {
	name, typ string
	group     []field
	list      bool   // the type is followed by *, as in x*
	times     string // number after *, or name of a constant, as in x*9 and x*N; otherwise empty
	optional  bool   // the group is followed by ?
}

// page is what docs/dev/protocol.md says of payloads.
type page struct {
	kinds   map[string][]field      // "1 Launch"
	senders map[string]frame.Sender // by the same
	view    fields.View
	parts   map[string][]field // and the payloads of kinds
	enums   map[string]bool
	lengths map[string]int
}

func readPage(t *testing.T, file string, view fields.View, lengths map[string]int) page {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	p := page{
		kinds: map[string][]field{}, parts: map[string][]field{}, senders: map[string]frame.Sender{}, view: view,
		enums: map[string]bool{}, lengths: lengths,
	}
	head := ""
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		grammar := ""
		switch {
		case !strings.HasPrefix(line, "|"):
			head = ""
			continue
		case head == "":
			head = cells[0]
			continue
		case strings.HasPrefix(line, "| ---"):
			continue
		case head == "kind" && len(cells) >= 3 && cells[1] != strings.ToUpper(cells[1]):
			if len(cells) > 3 {
				grammar = cells[3]
			}
			row, payload := cells[0]+" "+cells[1], parseFields(t, &grammar)
			p.kinds[row] = payload
			p.senders[row] = 0
			for words, from := range senders {
				if strings.Contains(cells[2], words) {
					p.senders[row] |= from
				}
			}
			p.parts[cells[1]] = payload
		case head == "part":
			grammar = cells[1]
			p.parts[cells[0]] = parseFields(t, &grammar)
		case head == "enumeration":
			p.enums[cells[0]] = true
		}
		require.Empty(t, grammar, line)
	}
	return p
}

// parseFields reads fields up to the end or a closing parenthesis, and takes them off the text.
func parseFields(t *testing.T, text *string) (all []field) {
	for {
		*text = strings.TrimLeft(*text, " ")
		if *text == "" || (*text)[0] == ')' {
			return all
		}
		var f field
		if end := strings.IndexAny(*text, ":(* )?"); end > 0 {
			f.name, *text = (*text)[:end], (*text)[end:]
		} else if end < 0 {
			f.name, *text = *text, ""
		}
		f.typ = f.name
		if strings.HasPrefix(*text, ":") {
			*text = (*text)[1:]
			end := strings.IndexAny(*text+" ", "(* )?")
			f.typ, *text = (*text)[:end], (*text)[end:]
		}
		if strings.HasPrefix(*text, "(") {
			*text = (*text)[1:]
			if f.typ != "bits" {
				f.typ = ""
			}
			f.group = parseFields(t, text)
			require.True(t, strings.HasPrefix(*text, ")"), "no end of the group of %v", f)
			*text = (*text)[1:]
		}
		if strings.HasPrefix(*text, "*") {
			end := strings.IndexAny(*text+" ", " )")
			f.times = (*text)[1:end]
			f.list = f.times == ""
			*text = (*text)[end:]
		}
		if strings.HasPrefix(*text, "?") {
			f.optional, *text = true, (*text)[1:]
		}
		all = append(all, f)
	}
}

// describes decodes a message by a row of the page.
func (p page) describes(row string, m frame.Message) error {
	d := decoder{page: p, rest: frame.Append(nil, m)[5:]}
	err := d.fields(p.kinds[row], reflect.ValueOf(m))
	if err == nil && len(d.rest) > 0 {
		err = fmt.Errorf("%d bytes more than the page has", len(d.rest))
	}
	return err
}

// decoder takes the fields of a page off a payload.
type decoder struct {
	page page
	rest []byte
}

// fields compares with all fields of a struct, or all elements of an array.
func (d *decoder) fields(list []field, v reflect.Value) error {
	v = d.page.open(v)
	found := map[string]bool{}
	if err := d.some(list, v, found); err != nil {
		return err
	}
	if v.Kind() == reflect.Array {
		if len(list) != v.Len() {
			return fmt.Errorf("%d elements, not %d", v.Len(), len(list))
		}
		return nil
	}
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; !found[plain(name)] {
			return fmt.Errorf("%v: the page lacks %s", v.Type(), name)
		}
	}
	return nil
}

// some compares with some of the fields, and notes which.
func (d *decoder) some(list []field, v reflect.Value, found map[string]bool) error {
	skip := false // the optional group that follows
	for i, f := range list {
		if f.optional {
			for _, f := range f.group {
				found[plain(f.name)] = true
			}
			if !skip {
				if err := d.some(f.group, v, found); err != nil {
					return err
				}
			}
			continue
		}
		if i+1 < len(list) && list[i+1].optional { // a flag of the codec's own
			skip = d.take(1)[0] == 1
			continue
		}
		if f.typ == "bits" {
			if err := d.bits(f, v, found); err != nil {
				return err
			}
			continue
		}
		var part reflect.Value
		if v.Kind() == reflect.Array {
			part = v.Index(min(i, v.Len()-1))
		} else {
			part = v.FieldByNameFunc(func(name string) bool { return plain(name) == plain(f.name) })
		}
		if !part.IsValid() {
			return fmt.Errorf("%v has no field %q", v.Type(), f.name)
		}
		found[plain(f.name)] = true
		if err := d.field(f, part); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// bits takes a byte with a flag in each bit, the lowest first.
func (d *decoder) bits(f field, v reflect.Value, found map[string]bool) error {
	b := d.take(1)[0]
	for i, flag := range f.group {
		part := v.FieldByNameFunc(func(name string) bool { return plain(name) == plain(flag.name) })
		if found[plain(flag.name)] = true; !part.IsValid() || part.Bool() != (b>>i&1 == 1) {
			return fmt.Errorf("%s: %v is not bit %d of %d", flag.name, part, i, b)
		}
	}
	return nil
}

func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "-", "")) }

// open takes pointers, tables and lists apart, and a struct around one of those.
func (p page) open(v reflect.Value) reflect.Value {
	for {
		shown := p.view(v.Interface())
		switch {
		case shown != nil:
			v = reflect.ValueOf(shown)
		case v.Kind() == reflect.Pointer:
			v = v.Elem()
		default:
			return v
		}
	}
}

func (d *decoder) field(f field, v reflect.Value) error {
	count, err := strconv.Atoi(f.times)
	if err != nil {
		count = d.page.lengths[f.times]
	}
	if f.list {
		count = int(d.number(32))
	}
	if !f.list && f.times == "" {
		return d.one(f, v)
	}
	if v = d.page.open(v); v.Len() != count {
		return fmt.Errorf("%d elements, not %d", v.Len(), count)
	}
	for i := range count {
		if err := d.one(f, v.Index(i)); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

// one takes a value of a type and compares it.
func (d *decoder) one(f field, v reflect.Value) error {
	if d.page.enums[f.typ] {
		f.typ = "b"
	}
	if part, ok := d.page.parts[f.typ]; ok {
		return d.fields(part, v)
	}
	if f.group != nil {
		return d.fields(f.group, v)
	}
	var got any
	want := v.Interface()
	switch f.typ {
	case "s":
		got, want = string(d.take(int(d.number(32)))), text(v)
	case "flag":
		got = d.take(1)[0] == 1
	case "b":
		got, want = uint64(d.take(1)[0]), number(v)
	case "u", "u16", "u63", "u64":
		bits, _ := strconv.Atoi(f.typ[1:])
		got, want = d.number(max(bits, 32*(1-min(bits, 1)))), number(v)
	case "u+1":
		got, want = uint32(d.number(32)-1), uint32(number(v))
	case "t":
		got = time.Duration(d.number(63)-1) * time.Microsecond
		if want.(time.Duration) < 0 {
			got, want = got.(time.Duration)/time.Microsecond, time.Duration(-1)
		}
	default:
		return fmt.Errorf("no type %q", f.typ)
	}
	if got != want {
		return fmt.Errorf("%v, not %v", got, want)
	}
	return nil
}

// number takes a number of at most so many bits.
func (d *decoder) number(bits int) uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || bits < 64 && n>>bits > 0 {
		return 1<<bits - 1 // no sample has it
	}
	d.rest = d.rest[size:]
	return n
}

// take takes so many bytes. Behind the end are those of no sample.
func (d *decoder) take(n int) []byte {
	if n > len(d.rest) {
		n, d.rest = 1, []byte{0xee}
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func number(v reflect.Value) uint64 {
	if v.CanInt() {
		return uint64(v.Int())
	}
	return v.Uint()
}

// text is what a field of type s has.
func text(v reflect.Value) string {
	switch v := v.Interface().(type) {
	case interface{ Append([]byte) []byte }: // fabric.Tuple
		return string(v.Append(nil))
	case []byte:
		return string(v)
	}
	return v.String()
}
