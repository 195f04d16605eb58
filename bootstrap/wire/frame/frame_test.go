package frame

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// word is a message for tests.
type word struct {
	Number uint32
	Flag   bool
	Text   string
	List   List[string, textCodec]
}

const kindWord Kind = 7

type textCodec struct{}

func (textCodec) Encode(w *Encoder, s string) { w.Text(s) }
func (textCodec) Decode(r *Decoder) string    { return r.Text() }

func (word) Kind() Kind       { return kindWord }
func (m word) String() string { return fmt.Sprintf("Word %q", m.Text) }

func (m word) Encode(w *Encoder) {
	w.U32(m.Number)
	w.Bool(m.Flag)
	w.Text(m.Text)
	m.List.Encode(w)
}

// words is a vocabulary of that message alone.
var words = Vocabulary{kindWord: {Name: "Word", From: Child, Parse: func(r *Decoder) Message {
	return word{r.U32(), r.Bool(), r.Text(), DecodeList[string, textCodec](r, nil)}
}}}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		frame []byte
		err   error
	}{
		"nothing":          {nil, ErrShort},
		"kind 0":           {[]byte{0}, ErrKind},
		"kind behind all":  {[]byte{200}, ErrKind},
		"short":            {[]byte{7, 1, 0}, ErrShort},
		"trailing":         {[]byte{7, 1, 0, 0, 0, 9}, ErrTrailing},
		"long form of 1":   {[]byte{7, 0x81, 0x00, 0, 0, 0}, ErrCanonical},
		"33 bits":          {[]byte{7, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0, 0}, ErrRange},
		"boolean 2":        {[]byte{7, 1, 2, 0, 0}, ErrCanonical},
		"text beyond end":  {[]byte{7, 1, 0, 100, 'x'}, ErrShort},
		"a billion texts":  {[]byte{7, 1, 0, 0, 0x80, 0x94, 0xeb, 0xdc, 0x03}, ErrShort},
		"one text is less": {[]byte{7, 1, 0, 0, 2, 1, 'x'}, ErrShort},
	} {
		_, err := words.Parse(c.frame)
		require.ErrorIs(t, err, c.err, name)
	}
	require.ErrorIs(t, words.Check(word{Text: strings.Repeat("x", 100)}, MaxSize-50), ErrSize)
	require.NoError(t, words.Check(word{Text: "x"}, MaxSize-50))
	require.Panics(t, func() { Append(nil, word{Text: strings.Repeat("x", MaxSize)}) })
}

// A frame that is announced and does not come costs little.
func TestReaderAllocatesWhatCame(t *testing.T) {
	head := []byte{0x03, 0xff, 0xff, 0xff, byte(kindWord)}
	body := bytes.Repeat([]byte{1}, 200<<10)
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := words.NewReader(io.MultiReader(bytes.NewReader(head), bytes.NewReader(body)), Child).Next()
			require.ErrorIs(b, err, io.ErrUnexpectedEOF)
		}
	}).AllocedBytesPerOp()
	require.Less(t, allocated, int64(2*len(body)+firstRead))
	_, err := words.NewReader(bytes.NewReader([]byte{0xff, 0, 0, 0}), Child).Next()
	require.ErrorIs(t, err, ErrSize)
}

// What comes in little pieces costs no more than what comes at once.
func TestHeapOfReading(t *testing.T) {
	f := Append(nil, word{Text: strings.Repeat("x", 5<<20)})[4:]
	whole := binary.BigEndian.AppendUint32(nil, uint32(len(f)))
	in := io.MultiReader(bytes.NewReader(whole), bytes.NewReader(f[:len(f)-1]))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := words.NewReader(in, Child).Next()
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(2*len(f)+Slack))
}

func TestInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		spans [][2]uint32
		err   error
	}{
		"apart":     {[][2]uint32{{0, 2}, {3, 1}, {9, 1}}, nil},
		"empty":     {[][2]uint32{{3, 0}}, ErrCanonical},
		"touching":  {[][2]uint32{{3, 1}, {4, 1}}, ErrCanonical},
		"backwards": {[][2]uint32{{3, 1}, {1, 1}}, ErrCanonical},
		"too far":   {[][2]uint32{{3, 8}}, ErrRange},
	} {
		check := InOrder(10)
		var err error
		for _, s := range c.spans {
			if err == nil {
				err = check(s[0], s[1])
			}
		}
		require.ErrorIs(t, err, c.err, name)
	}
}

// Newlines between frames are skipped where they may be, and nowhere else.
func TestSkipNewlines(t *testing.T) {
	f := Append(nil, word{Text: "a\n"})
	stream := bytes.Join([][]byte{{}, f, f, {}, {}}, []byte{Newline, Newline})
	r := words.NewReader(bytes.NewReader(stream), Child)
	r.SkipNewlines()
	for range 2 {
		m, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, word{Text: "a\n"}, m)
	}
	_, err := r.Next()
	require.Equal(t, io.EOF, err)
	_, err = words.NewReader(bytes.NewReader(stream), Child).Next()
	require.ErrorIs(t, err, ErrSize)
	r = words.NewReader(bytes.NewReader([]byte{Newline, 0}), Child)
	r.SkipNewlines()
	_, err = r.Next()
	require.Equal(t, io.ErrUnexpectedEOF, err)
}
