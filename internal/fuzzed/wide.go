package fuzzed

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each is the variable that names how many inputs Fuzz makes of each seed.
const Each = "IBRUN_FUZZ_EACH"

// Fuzz is f.Fuzz. If Each is set and Go does not fuzz by itself, body also gets so many inputs made
// of each seed, in this process and without a look at what they cover. That is ten to a hundred
// times as many a second, to go on from a corpus that coverage has led to. How many there were is
// printed as Go prints it. What fails is kept in testdata/fuzz, as by Go.
func Fuzz(f *testing.F, body any) {
	f.Helper()
	each, err := strconv.Atoi(os.Getenv(Each))
	if err != nil || each <= 0 {
		f.Fuzz(body)
		return
	}
	m := maker{Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
	run, execs := reflect.ValueOf(body), 0
	defer func() { fmt.Printf("fuzz: execs: %d\n", execs) }()
	f.Fuzz(reflect.MakeFunc(run.Type(), func(seed []reflect.Value) []reflect.Value {
		t := seed[0].Interface().(*testing.T)
		m.learn(seed[1:])
		input := seed
		fine := false
		defer func() {
			if !fine {
				t.Logf("this input is kept in %s", keep(f.Name(), input[1:]))
			}
		}()
		for range each + 1 {
			execs++
			run.Call(input)
			if t.Failed() {
				return nil
			}
			input = slices.Concat(seed[:1], m.input(seed[1:]))
		}
		fine = true
		return nil
	}).Interface())
}

// keep writes an input in Go's format for a corpus, and returns the name of the file.
func keep(target string, values []reflect.Value) string {
	var b strings.Builder
	b.WriteString("go test fuzz v1\n")
	for _, v := range values {
		if v.Kind() == reflect.Slice {
			fmt.Fprintf(&b, "[]byte(%q)\n", v.Bytes())
		} else {
			fmt.Fprintf(&b, "%s(%#v)\n", v.Type(), v.Interface())
		}
	}
	dir := filepath.Join("testdata", "fuzz", target)
	name := filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256([]byte(b.String())))[:16])
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err.Error()
	}
	if err := os.WriteFile(name, []byte(b.String()), 0o666); err != nil {
		return err.Error()
	}
	return name
}

// maker makes inputs of others.
type maker struct {
	*rand.Rand
	pool [][]byte // bytes of earlier seeds
}

// mostPool bounds what is remembered of seeds, and mostInput an input, in bytes.
const mostPool, mostInput = 256, 64 << 10

func (m *maker) learn(seed []reflect.Value) {
	for _, v := range seed {
		b, ok := text(v)
		if !ok || len(b) == 0 {
			continue
		}
		if len(m.pool) < mostPool {
			m.pool = append(m.pool, b)
		} else {
			m.pool[m.IntN(mostPool)] = b
		}
	}
}

// text is what v has as text, a copy, and whether it is text at all.
func text(v reflect.Value) (b []byte, ok bool) {
	switch v.Kind() {
	case reflect.Slice:
		return slices.Clone(v.Bytes()), true
	case reflect.String:
		return []byte(v.String()), true
	}
	return nil, false
}

// input is a seed with one to eight changes of each text, and now and then of a number.
func (m *maker) input(seed []reflect.Value) (made []reflect.Value) {
	for _, v := range seed {
		if b, ok := text(v); ok {
			for range 1 + m.IntN(8) {
				b = m.changed(b)
			}
			v = reflect.ValueOf(b).Convert(v.Type())
		} else if m.IntN(8) == 0 {
			v = m.other(v.Type())
		}
		made = append(made, v)
	}
	return made
}

// other is any value of a type that is no text; small numbers are as likely as large ones.
func (m *maker) other(kind reflect.Type) reflect.Value {
	if kind.Kind() == reflect.Bool {
		return reflect.ValueOf(m.IntN(2) == 0).Convert(kind)
	}
	return reflect.ValueOf(int64(m.Uint64()) >> m.IntN(64)).Convert(kind)
}

// edges are numbers at which decoders change their minds.
var edges = []uint64{0, 1, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 1 << 16, 1<<31 - 1, 1 << 31, 1<<32 - 1,
	1<<63 - 1, 1 << 63, 1<<64 - 1}

// changed is b, which may be changed in place, after one change.
func (m *maker) changed(b []byte) []byte {
	at := m.IntN(len(b) + 1)
	rest := len(b) - at
	switch what := m.IntN(8); {
	case what == 0 && len(b) < mostInput: // a few bytes more
		more := make([]byte, 1+m.IntN(8))
		for i := range more {
			more[i] = byte(m.Uint32())
		}
		return slices.Insert(b, at, more...)
	case what == 1 && len(m.pool) > 0: // a part of another seed, put in or over
		other := m.pool[m.IntN(len(m.pool))]
		from := m.IntN(len(other))
		part := other[from : from+1+m.IntN(len(other)-from)]
		if m.IntN(2) == 0 && len(b)+len(part) <= mostInput {
			return slices.Insert(b, at, part...)
		}
		copy(b[at:], part)
	case rest == 0:
	case what == 2:
		return slices.Delete(b, at, at+1+m.IntN(rest))
	case what == 3 && len(b) <= mostInput/2: // a part twice
		return slices.Insert(b, at, slices.Clone(b[at:at+1+m.IntN(rest)])...)
	case what == 4:
		b[at] ^= 1 << m.IntN(8)
	case what == 5: // a number of one to eight bytes, in either order
		n, size := edges[m.IntN(len(edges))]+uint64(m.IntN(3))-1, 1<<m.IntN(4)
		little := m.IntN(2) == 0
		for i := range min(size, rest) {
			shift := 8 * i
			if !little {
				shift = 8 * (size - 1 - i)
			}
			b[at+i] = byte(n >> shift)
		}
	case what == 6:
		b[at] += byte(m.IntN(71)) - 35
	default:
		b[at] = byte(m.Uint32())
	}
	return b
}
