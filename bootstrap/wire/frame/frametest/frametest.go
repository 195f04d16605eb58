// Package frametest holds a vocabulary of frames against its samples and against docs/dev/protocol.md:
// each kind comes back as it was sent, in one form, from those who may send it, at a bounded cost
// in memory, and the page describes each of its fields. It is for tests only.
package frametest

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/frame"
	"ibrun/test/fields"
)

// Suite is a vocabulary and what it is tested with.
type Suite struct {
	Vocabulary frame.Vocabulary
	Speakers   frame.Sender // all who speak it

	// Samples has messages of each kind. Together they leave no field of a kind at zero.
	Samples []frame.Message
	// Borrowed contains one message of each kind that another vocabulary also has. The tests of that vocabulary check
	// its fields.
	Borrowed []frame.Message
	// Variant is the path of the field whose value determines which other fields its message has, or empty.
	Variant string
	// Fuzz calls Look with each message that it has decoded, for additional checks. Look may be nil.
	Look func(frame.Message)
	// View returns the elements of tables and lists in messages.
	View fields.View
	// Dense has, of each kind, the messages that could cost most memory beside their frame: as many
	// elements as there is room for in size bytes, each as small as it can be. It is nil for a kind
	// that has nothing in it of which there can be many.
	Dense map[frame.Kind]func(size int) []frame.Message
}

// RoundTrips sends a message of each kind, alone and one behind the other.
func (s Suite) RoundTrips(t *testing.T) {
	seen := map[frame.Kind]bool{}
	var stream []byte
	all := slices.Concat(s.Samples, s.Borrowed)
	for _, m := range all {
		seen[m.Kind()] = true
		sent := frame.Append(nil, m)
		got, err := s.Vocabulary.Parse(sent[4:])
		require.NoError(t, err, m.String())
		require.Equal(t, m, got)
		require.NotContains(t, m.String(), "\n")
		stream = append(stream, sent...)
	}
	for number, format := range s.Vocabulary {
		k := frame.Kind(number)
		require.Equal(t, format.Parse != nil, seen[k], "samples of %s", s.Vocabulary.Name(k))
		require.Equal(t, format.Parse == nil, strings.Contains(s.Vocabulary.Name(k), "("), "name of kind %d", k)
	}
	in := iotest.OneByteReader(bytes.NewReader(stream))
	for _, m := range all {
		got, err := s.Vocabulary.NewReader(in, s.Vocabulary.Format(m.Kind()).From).Next()
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	_, err := s.Vocabulary.NewReader(in, s.Speakers).Next()
	require.Equal(t, io.EOF, err)
}

// Senders refuses a kind by its number if its sender may not send it, or not again.
func (s Suite) Senders(t *testing.T) {
	for _, m := range slices.Concat(s.Samples, s.Borrowed) {
		sent := frame.Append(nil, m)
		for _, from := range []frame.Sender{frame.Parent, frame.Child, frame.Rank, frame.Agent, frame.Root} {
			r := s.Vocabulary.NewReader(bytes.NewReader(slices.Concat(sent, sent)), from)
			_, err := r.Next()
			if !s.Vocabulary.Allows(m.Kind(), from) {
				require.ErrorIs(t, err, frame.ErrKind, "%v from a %v", m, from)
				require.ErrorContains(t, err, from.String())
				continue
			}
			require.NoError(t, err)
			_, err = r.Next()
			if s.Vocabulary.Format(m.Kind()).Once {
				require.ErrorIs(t, err, frame.ErrAgain)
			} else {
				require.NoError(t, err)
			}
		}
	}
}

// Strict checks that a frame is refused if it is cut after any of its bytes, or has one additional byte at its end.
func (s Suite) Strict(t *testing.T) {
	for _, m := range slices.Concat(s.Samples, s.Borrowed) {
		sent := frame.Append(nil, m)[4:]
		for n := range sent {
			_, err := s.Vocabulary.Parse(sent[:n])
			require.Error(t, err, "the first %d of %d bytes of %v", n, len(sent), m)
		}
		_, err := s.Vocabulary.Parse(append(sent, 0))
		require.ErrorIs(t, err, frame.ErrTrailing, "%v and a byte", m)
	}
}

// Fields refuses samples that leave a field at zero: a codec that drops the field would bring them
// back all the same. What is looked at has been through the codec, lists included. Each field has a
// place of its own, too: the samples come back without any one of their fields, where that is still
// a message. Fields returns how many such messages there were of each kind.
func (s Suite) Fields(t *testing.T) map[frame.Kind]int {
	var parsed []any
	tried := map[frame.Kind]int{}
	for _, m := range s.Samples {
		got, err := s.Vocabulary.Parse(frame.Append(nil, m)[4:])
		require.NoError(t, err)
		parsed = append(parsed, got)
		for path, changed := range s.without(m) {
			got, err := s.Vocabulary.Parse(frame.Append(nil, changed)[4:])
			require.NoError(t, err)
			require.Equal(t, changed, got, path)
			tried[m.Kind()]++
		}
	}
	require.Empty(t, fields.Zero(s.View, parsed...))
	return tried
}

// without yields a message without any one of its fields, where that is still one, and the paths of
// the fields.
func (s Suite) without(m frame.Message) func(yield func(string, frame.Message) bool) {
	return func(yield func(string, frame.Message) bool) {
		for path, changed := range fields.Without(m) {
			m := changed.(frame.Message)
			if _, err := s.Vocabulary.Parse(frame.Append(nil, m)[4:]); err != nil || path == s.Variant {
				continue
			}
			if !yield(path, m) {
				return
			}
		}
	}
}

// Elements are those of a list. It panics if one of them, or one without one of its fields, does
// not come through the codec as it was.
func Elements[T any, C frame.Codec[T]](l frame.List[T, C]) (all []T) {
	var c C
	again := func(v T) T {
		var w frame.Encoder
		c.Encode(&w, v)
		r := frame.NewDecoder(w, len(w)+frame.Slack)
		got := c.Decode(r)
		if r.Err() != nil {
			panic(r.Err())
		}
		return got
	}
	same := func(v any) {
		if got := again(v.(T)); !assert.ObjectsAreEqual(v, any(got)) {
			panic(fmt.Sprintf("%+v comes back as %+v", v, got))
		}
	}
	for v := range l.All() {
		all = append(all, v)
		same(v)
		for _, changed := range fields.Without(v) {
			same(changed)
		}
	}
	return all
}

// Repeat is a list of so many equal elements.
func Repeat[T any, C frame.Codec[T]](count int, element T) frame.List[T, C] {
	return frame.ListOf[T, C](func(yield func(T) bool) {
		for i := 0; i < count && yield(element); i++ {
		}
	})
}

// Fuzz is a fuzz target. It decodes frames and checks that each decoded message is encoded to the same bytes. Its
// corpus begins with Samples and Borrowed.
func (s Suite) Fuzz(f *testing.F) {
	for _, m := range slices.Concat(s.Samples, s.Borrowed) {
		f.Add(frame.Append(nil, m)[4:])
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		m, err := s.Vocabulary.Parse(sent)
		if err != nil {
			return
		}
		require.Equal(t, sent, frame.Append(nil, m)[4:])
		_ = m.String()
		if s.Look != nil {
			s.Look(m)
		}
	})
}
